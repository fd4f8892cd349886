import com.rabbitmq.client.Connection;
import com.rabbitmq.client.impl.ClientVersion;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs every behaviour in a connection of its own and prints a line for each: see ../README.md. */
final class Main {
    private static final int LIMIT_S = 30;

    /** What a behaviour throws when it cannot be shown. */
    static final class Skipped extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Skipped(String why) {
            super(why);
        }
    }

    interface Behaviour {
        void run(Connection connection) throws Exception;
    }

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        introduce();
        boolean isWell = true;
        for (Map.Entry<String, Behaviour> named : Behaviours.ALL.entrySet()) {
            isWell &= report(named.getKey(), named.getValue());
        }
        // What a behaviour that failed has left running must not keep the program.
        System.exit(isWell ? 0 : 1);
    }

    private static void introduce() throws Exception {
        try (Connection connection = Client.connect()) {
            Map<String, Object> properties = connection.getServerProperties();
            System.out.println("client amqp-client " + ClientVersion.VERSION);
            System.out.println("broker " + properties.get("product") + " " + properties.get("version"));
        }
    }

    private static boolean report(String name, Behaviour behaviour) {
        ExecutorService executor = Executors.newSingleThreadExecutor();
        try {
            Future<?> run = executor.submit(() -> {
                try (Connection connection = Client.connect()) {
                    behaviour.run(connection);
                }
                return null;
            });
            run.get(LIMIT_S, TimeUnit.SECONDS);
            System.out.println("ok " + name);
            return true;
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            boolean isSkipped = cause instanceof Skipped;
            String why = isSkipped ? cause.getMessage() : cause.toString().lines().findFirst().orElse("");
            System.out.println((isSkipped ? "skipped " : "FAILED ") + name + ": " + why);
            return isSkipped;
        } catch (TimeoutException | InterruptedException error) {
            System.out.println("FAILED " + name + ": not done in " + LIMIT_S + " s");
            return false;
        } finally {
            executor.shutdownNow();
        }
    }
}
