// Runs every behaviour in a connection of its own and prints a line for each: see ../README.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const limit = 30 * time.Second

type behaviour struct {
	name string
	run  func(connection *amqp.Connection)
}

// skipped is what a behaviour panics with when it cannot be shown.
type skipped struct{ why string }

func main() {
	introduce()
	failed := false
	for _, b := range behaviours {
		switch err := run(b); {
		case err == nil:
			fmt.Println("ok", b.name)
		case errors.As(err, &skipped{}):
			fmt.Printf("skipped %s: %v\n", b.name, err)
		default:
			failed = true
			line, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Printf("FAILED %s: %s\n", b.name, line)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func introduce() {
	version := "?"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			version = strings.TrimPrefix(module.Version, "v")
		}
	}
	connection := connect()
	defer connection.Close()
	fmt.Println("client amqp091-go", version)
	fmt.Println("broker", connection.Properties["product"], connection.Properties["version"])
}

// run gives what the behaviour panicked with, or says that it did not end in time.
func run(b behaviour) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			switch fault := recover().(type) {
			case nil:
				done <- nil
			case error:
				done <- fault
			default:
				done <- fmt.Errorf("%v", fault)
			}
		}()
		connection := connect()
		defer connection.Close()
		b.run(connection)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("not done in %v", limit)
	}
}

func (s skipped) Error() string { return s.why }
