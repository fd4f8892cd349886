package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const messages = 200

// The behaviours by name; ../support/behaviours.py says what each shows.
var behaviours = []behaviour{
	{"confirms", confirms},
	{"returns", returns},
	{"prefetch", prefetch},
	{"requeue", requeue},
	{"dead_letter", deadLetter},
	{"bindings", bindings},
	{"header_types", headerTypes},
	{"large_bodies", largeBodies},
	{"transactions", transactions},
	{"heartbeats", heartbeats},
	{"cancel_notify", cancelNotify},
	{"exclusive_queue", exclusiveQueues},
	{"server_named_queue", serverNamedQueue},
	{"blocked", blocked},
	{"channel_errors", channelErrors},
	{"connection_errors", connectionErrors},
}

func confirms(connection *amqp.Connection) {
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	check(channel.Confirm(false))
	var pending []*amqp.DeferredConfirmation
	for number := range messages {
		message := amqp.Publishing{Body: []byte(fmt.Sprint(number))}
		pending = append(pending, must(channel.PublishWithDeferredConfirm("", queue, false, false, message)))
	}
	for number, confirmation := range pending {
		equal("tag", confirmation.DeliveryTag, uint64(number+1))
		equal("acked", confirmation.Wait(), true)
	}
	equal("messages", messageCount(channel, queue), messages)
}

func returns(connection *amqp.Connection) {
	channel := must(connection.Channel())
	check(channel.Confirm(false))
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	key := uniqueName("nowhere")
	message := amqp.Publishing{MessageId: "m1", Body: []byte("back")}
	confirmation := must(channel.PublishWithDeferredConfirm("amq.direct", key, true, false, message))
	equal("acked", confirmation.Wait(), true)
	select {
	case back := <-returned:
		equal("code", back.ReplyCode, uint16(312))
		equal("text", back.ReplyText, "NO_ROUTE")
		equal("exchange", back.Exchange, "amq.direct")
		equal("key", back.RoutingKey, key)
		equal("message id", back.MessageId, "m1")
		equal("body", string(back.Body), "back")
	default:
		panic("confirmed before it was returned")
	}
}

func prefetch(connection *amqp.Connection) {
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	for number := range 10 {
		send(channel, "", queue, fmt.Sprint(number))
	}
	eventually(func() bool { return messageCount(channel, queue) == 10 })
	check(channel.Qos(3, 0, false))
	deliveries := must(channel.Consume(queue, "", false, false, false, false, nil))
	var out []amqp.Delivery
	take := func(count int) {
		for range count {
			out = append(out, <-deliveries)
		}
		equal("left in the queue", messageCount(channel, queue), 10-len(out))
	}
	take(3)
	check(out[0].Ack(false))
	take(1)
	check(out[3].Ack(true))
	take(3)
	for number, delivery := range out {
		equal("order", string(delivery.Body), fmt.Sprint(number))
	}
}

func requeue(connection *amqp.Connection) {
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	send(channel, "", queue, "again")
	first := get(channel, queue)
	equal("redelivered", first.Redelivered, false)
	check(first.Nack(false, true))
	second := get(channel, queue)
	equal("redelivered", second.Redelivered, true)
	equal("body", string(second.Body), "again")
	check(second.Reject(false))
	_, ok := must2(channel.Get(queue, true))
	equal("still there", ok, false)
}

func deadLetter(connection *amqp.Connection) {
	channel := must(connection.Channel())
	target := exclusiveQueue(channel, nil)
	source := exclusiveQueue(channel, amqp.Table{
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": target,
	})
	send(channel, "", source, "rejected")
	check(get(channel, source).Reject(false))
	assertDead(get(channel, target), "rejected", source)
	short := amqp.Publishing{Expiration: "1", Body: []byte("expired")}
	check(channel.PublishWithContext(ctx, "", source, false, false, short))
	assertDead(get(channel, target), "expired", source)
}

func assertDead(message amqp.Delivery, reason, source string) {
	equal("body", string(message.Body), reason)
	equal("expiration", message.Expiration, "")
	equal("first reason", message.Headers["x-first-death-reason"], any(reason))
	equal("first queue", message.Headers["x-first-death-queue"], any(source))
	deaths := message.Headers["x-death"].([]any)
	equal("deaths", len(deaths), 1)
	death := deaths[0].(amqp.Table)
	equal("count", death["count"], any(int64(1)))
	equal("reason", death["reason"], any(reason))
	equal("queue", death["queue"], any(source))
	equal("exchange", death["exchange"], any(""))
	equal("keys", death["routing-keys"], any([]any{source}))
	if age := time.Since(death["time"].(time.Time)); age < -2*time.Second || age > time.Minute {
		panic(fmt.Sprintf("died %v ago", age))
	}
}

func bindings(connection *amqp.Connection) {
	channel := must(connection.Channel())
	topic, headers := uniqueName("topic"), uniqueName("headers")
	check(channel.ExchangeDeclare(topic, "topic", true, true, false, false, nil))
	check(channel.ExchangeDeclare(headers, "headers", true, true, false, false, nil))
	byTopic, byHeaders := exclusiveQueue(channel, nil), exclusiveQueue(channel, nil)
	check(channel.QueueBind(byTopic, "a.*.#", topic, false, nil))
	check(channel.ExchangeBind(headers, "#", topic, false, nil))
	match := amqp.Table{"x-match": "all", "kind": "urgent", "size": int32(5)}
	check(channel.QueueBind(byHeaders, "", headers, false, match))
	publish := func(key string, values amqp.Table) {
		check(channel.PublishWithContext(ctx, topic, key, false, false, amqp.Publishing{Headers: values}))
	}
	publish("a.b", amqp.Table{"kind": "urgent", "size": int32(5)})
	publish("a", amqp.Table{"kind": "urgent", "size": int32(5)})
	publish("a.b.c.d", amqp.Table{"kind": "urgent"})
	eventually(func() bool { return messageCount(channel, byTopic) == 2 })
	eventually(func() bool { return messageCount(channel, byHeaders) == 2 })
	check(channel.QueueUnbind(byTopic, "a.*.#", topic, nil))
	publish("a.b", amqp.Table{"kind": "urgent", "size": int32(5)})
	eventually(func() bool { return messageCount(channel, byHeaders) == 3 })
	equal("after unbinding", messageCount(channel, byTopic), 2)
	check(channel.ExchangeDelete(topic, false, false))
	check(channel.ExchangeDelete(headers, false, false))
}

func headerTypes(connection *amqp.Connection) {
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	moment := time.Unix(1_700_000_000, 0)
	sent := amqp.Publishing{
		Headers: amqp.Table{
			"bool":      true,
			"int8":      int8(-128),
			"uint8":     byte(255),
			"int16":     int16(-32_768),
			"uint16":    uint16(65_535),
			"int32":     int32(-2_147_483_648),
			"uint32":    uint32(4_294_967_295),
			"int64":     int64(-9_223_372_036_854_775_808),
			"float":     float32(0.1),
			"double":    1e-9,
			"decimal":   amqp.Decimal{Scale: 2, Value: 314},
			"string":    "grüße \xff",
			"bytes":     []byte{0, 255, 206},
			"timestamp": moment,
			"array":     []any{int32(1), "two", nil, []any{false}},
			"table":     amqp.Table{"deep": amqp.Table{"deeper": "deepest"}, "empty": amqp.Table{}},
			"nothing":   nil,
		},
		ContentType:     "application/json",
		ContentEncoding: "utf-8",
		DeliveryMode:    amqp.Persistent,
		Priority:        7,
		CorrelationId:   "c1",
		ReplyTo:         "somewhere",
		Expiration:      "60000",
		MessageId:       "m1",
		Timestamp:       moment,
		Type:            "greeting",
		UserId:          "guest",
		AppId:           "interop",
		Body:            []byte("m"),
	}
	check(channel.PublishWithContext(ctx, "", queue, false, false, sent))
	message := get(channel, queue)
	for name, value := range sent.Headers {
		equal(name, message.Headers[name], value)
	}
	equal("headers", len(message.Headers), len(sent.Headers))
	got := amqp.Publishing{
		Headers: sent.Headers, ContentType: message.ContentType, ContentEncoding: message.ContentEncoding,
		DeliveryMode: message.DeliveryMode, Priority: message.Priority, CorrelationId: message.CorrelationId,
		ReplyTo: message.ReplyTo, Expiration: message.Expiration, MessageId: message.MessageId,
		Timestamp: message.Timestamp, Type: message.Type, UserId: message.UserId, AppId: message.AppId,
		Body: message.Body,
	}
	equal("properties", got, sent)
}

func largeBodies(connection *amqp.Connection) {
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	full := connection.Config.FrameSize - 8
	for _, size := range []int{0, 1, full - 1, full, full + 1, 5 << 20} {
		body := make([]byte, size)
		must(rand.Read(body))
		check(channel.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: body}))
		if message := get(channel, queue); !bytes.Equal(message.Body, body) {
			panic(fmt.Sprintf("%d bytes came back as %d others", size, len(message.Body)))
		}
	}
}

func transactions(connection *amqp.Connection) {
	channel, observer := must(connection.Channel()), must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	check(channel.Tx())
	send(channel, "", queue, "never")
	check(channel.TxRollback())
	send(channel, "", queue, "kept")
	equal("before the commit", messageCount(observer, queue), 0)
	check(channel.TxCommit())
	equal("after the commit", messageCount(observer, queue), 1)
	message := get(channel, queue)
	equal("body", string(message.Body), "kept")
	check(message.Ack(false))
	check(channel.TxRollback())
	check(message.Ack(false))
	check(channel.TxCommit())
	equal("after the acknowledgement", messageCount(observer, queue), 0)
}

func heartbeats(*amqp.Connection) {
	connection := must(amqp.DialConfig(brokerURL(), amqp.Config{Heartbeat: time.Second}))
	equal("negotiated", connection.Config.Heartbeat, time.Second)
	select {
	case told := <-connection.NotifyClose(make(chan *amqp.Error, 1)):
		panic(fmt.Sprintf("closed: %v", told))
	case <-time.After(4 * time.Second):
	}
	exclusiveQueue(must(connection.Channel()), nil)
	check(connection.Close())
}

func cancelNotify(connection *amqp.Connection) {
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	told := channel.NotifyCancel(make(chan string, 1))
	deliveries := must(channel.Consume(queue, "mine", false, false, false, false, nil))
	must(channel.QueueDelete(queue, false, false, false))
	equal("tag", <-told, "mine")
	_, open := <-deliveries
	equal("deliveries go on", open, false)
	exclusiveQueue(channel, nil)
}

func exclusiveQueues(connection *amqp.Connection) {
	other := connect()
	name := uniqueName("exclusive")
	must(must(other.Channel()).QueueDeclare(name, false, false, true, false, nil))
	text := fmt.Sprintf(
		"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '/'", name)
	_, err := must(connection.Channel()).Consume(name, "", false, false, false, false, nil)
	refused(err, amqp.ResourceLocked, text)
	_, err = must(connection.Channel()).QueueDeclare(name, false, false, true, false, nil)
	refused(err, amqp.ResourceLocked, text)
	_, err = must(connection.Channel()).QueuePurge(name, false)
	refused(err, amqp.ResourceLocked, text)
	check(other.Close())
	_, err = must(connection.Channel()).QueueDeclarePassive(name, false, false, false, false, nil)
	refused(err, amqp.NotFound, fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", name))
}

func serverNamedQueue(connection *amqp.Connection) {
	channel := must(connection.Channel())
	first, second := exclusiveQueue(channel, nil), exclusiveQueue(channel, nil)
	if first == second || !strings.HasPrefix(first, "amq.gen-") || len(first) != len("amq.gen-")+22 {
		panic(fmt.Sprintf("named %q and %q", first, second))
	}
	// No name is the queue this channel declared last.
	check(channel.QueueBind("", "", "amq.fanout", false, nil))
	send(channel, "amq.fanout", "", "m")
	eventually(func() bool { return messageCount(channel, second) == 1 })
	equal("in the first", messageCount(channel, first), 0)
}

func blocked(*amqp.Connection) {
	address := os.Getenv("INTEROP_BLOCKED_URL")
	if address == "" {
		panic(skipped{"no broker that is low on memory"})
	}
	connection := must(amqp.Dial(address))
	told := connection.NotifyBlocked(make(chan amqp.Blocking, 1))
	channel := must(connection.Channel())
	for {
		select {
		case blocking := <-told:
			equal("active", blocking.Active, true)
			equal("reason", blocking.Reason, "low on memory")
			return // Closing would wait for an answer that a blocked connection does not get.
		case <-time.After(50 * time.Millisecond):
			send(channel, "amq.fanout", "", "m")
		}
	}
}

func channelErrors(connection *amqp.Connection) {
	missing, queue := uniqueName("missing"), uniqueName("errors")
	declare := func(channel *amqp.Channel, name string, arguments amqp.Table) error {
		_, err := channel.QueueDeclare(name, false, false, true, false, arguments)
		return err
	}
	check(declare(must(connection.Channel()), queue, amqp.Table{"x-expires": int32(60_000)}))
	cases := []struct {
		code int
		text string
		act  func(channel *amqp.Channel) error
	}{
		{amqp.NotFound, fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", missing),
			func(channel *amqp.Channel) error {
				_, err := channel.Consume(missing, "", false, false, false, false, nil)
				return err
			}},
		{amqp.NotFound, fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", missing),
			func(channel *amqp.Channel) error { return channel.QueueBind(queue, "", missing, false, nil) }},
		{amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue"+
			" '%s' in vhost '/': received none but current is the value '60000' of type 'signedint'", queue),
			func(channel *amqp.Channel) error { return declare(channel, queue, nil) }},
		{amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag 99",
			func(channel *amqp.Channel) error {
				check(channel.Ack(99, false))
				return channel.Qos(1, 0, false)
			}},
		{amqp.AccessRefused, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
			func(channel *amqp.Channel) error { return declare(channel, "amq.mine", nil) }},
	}
	for _, c := range cases {
		channel := must(connection.Channel())
		closed := channel.NotifyClose(make(chan *amqp.Error, 1))
		err := c.act(channel)
		told := <-closed
		refused(told, c.code, c.text)
		if err == nil {
			panic("the call that was refused went well")
		}
	}
	exclusiveQueue(must(connection.Channel()), nil)
}

func connectionErrors(*amqp.Connection) {
	connection := connect()
	channel := must(connection.Channel())
	queue := exclusiveQueue(channel, nil)
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	must(channel.Consume(queue, "twice", false, false, false, false, nil))
	channel.Consume(queue, "twice", false, false, false, false, nil) //nolint:errcheck // closed tells
	refused(<-closed, amqp.NotAllowed, "NOT_ALLOWED - attempt to reuse consumer tag 'twice'")

	immediate := connect()
	closed = immediate.NotifyClose(make(chan *amqp.Error, 1))
	check(must(immediate.Channel()).PublishWithContext(ctx, "", "q", false, true, amqp.Publishing{}))
	refused(<-closed, amqp.NotImplemented, "NOT_IMPLEMENTED - immediate=true")

	address := must(url.Parse(brokerURL()))
	address.User = url.UserPassword("guest", "not-the-password")
	_, err := amqp.Dial(address.String())
	equal("wrong password", err, error(amqp.ErrCredentials))
	_, err = amqp.DialConfig(brokerURL(), amqp.Config{Vhost: "interop-missing"})
	refused(err, amqp.NotAllowed, "NOT_ALLOWED - vhost interop-missing not found")
}
