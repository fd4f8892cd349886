//! Runs every behaviour in a connection of its own and prints a line for each: see ../README.md.

mod behaviours;
mod client;
mod headers;

use std::any::Any;
use std::process::ExitCode;
use std::time::Duration;

use client::Skipped;

const LIMIT: Duration = Duration::from_secs(30);
const MANIFEST: &str = include_str!("../Cargo.toml");

enum Verdict {
    Well,
    Skipped(String),
    Failed(String),
}

#[tokio::main]
async fn main() -> ExitCode {
    // What went wrong is told in the line of the behaviour.
    std::panic::set_hook(Box::new(|_| ()));
    println!("client lapin {}", version().unwrap_or("?"));
    let mut status = ExitCode::SUCCESS;
    for (name, run) in behaviours::ALL {
        match judge(run).await {
            Verdict::Well => println!("ok {name}"),
            Verdict::Skipped(why) => println!("skipped {name}: {why}"),
            Verdict::Failed(why) => {
                status = ExitCode::FAILURE;
                println!("FAILED {name}: {}", why.replace('\n', " "));
            }
        }
    }
    status
}

fn version() -> Option<&'static str> {
    MANIFEST.split("lapin = { version = \"=").nth(1)?.split('"').next()
}

async fn judge(run: &behaviours::Run) -> Verdict {
    let task = tokio::spawn(run());
    match tokio::time::timeout(LIMIT, task).await {
        Err(_) => Verdict::Failed(format!("not done in {LIMIT:?}")),
        Ok(Ok(Ok(()))) => Verdict::Well,
        Ok(Ok(Err(error))) => match error.downcast_ref::<Skipped>() {
            Some(skipped) => Verdict::Skipped(skipped.to_string()),
            None => Verdict::Failed(error.to_string()),
        },
        Ok(Err(ended)) => Verdict::Failed(words_of(ended.into_panic().as_ref())),
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
