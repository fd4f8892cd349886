package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var ctx = context.Background()

func brokerURL() string {
	if url := os.Getenv("INTEROP_URL"); url != "" {
		return url
	}
	return "amqp://guest:guest@127.0.0.1:5672/"
}

func connect() *amqp.Connection {
	return must(amqp.Dial(brokerURL()))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("%s: got %#v, want %#v", what, got, want))
	}
}

func uniqueName(kind string) string {
	return "interop.go." + kind + "." + strings.ToLower(rand.Text()[:8])
}

func exclusiveQueue(channel *amqp.Channel, arguments amqp.Table) string {
	return must(channel.QueueDeclare("", false, false, true, false, arguments)).Name
}

func messageCount(channel *amqp.Channel, queue string) int {
	return must(channel.QueueDeclarePassive(queue, false, false, true, false, nil)).Messages
}

func send(channel *amqp.Channel, exchange, key, body string) {
	check(channel.PublishWithContext(ctx, exchange, key, false, false, amqp.Publishing{Body: []byte(body)}))
}

// get waits for the next message; the limit of the behaviour bounds it.
func get(channel *amqp.Channel, queue string) amqp.Delivery {
	for {
		if message, ok := must2(channel.Get(queue, false)); ok {
			return message
		}
		pause()
	}
}

func must2(message amqp.Delivery, ok bool, err error) (amqp.Delivery, bool) {
	check(err)
	return message, ok
}

func eventually(check func() bool) {
	for !check() {
		pause()
	}
}

func pause() { time.Sleep(20 * time.Millisecond) }

// refused expects the call to fail with the code and a reason that begins with the words.
func refused(err error, code int, reason string) {
	var told *amqp.Error
	if !errors.As(err, &told) {
		panic(fmt.Sprintf("got %v, want an error with code %d", err, code))
	}
	equal("code", told.Code, code)
	if !strings.HasPrefix(told.Reason, reason) {
		panic(fmt.Sprintf("got %q, want %q", told.Reason, reason))
	}
	equal("who closed", told.Server, true)
}
