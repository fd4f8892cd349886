import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;

/** The behaviours by name; ../support/behaviours.py says what each shows. */
final class Behaviours {
    static final Map<String, Main.Behaviour> ALL = new LinkedHashMap<>();

    static {
        ALL.put("confirms", Behaviours::confirms);
        ALL.put("returns", Behaviours::returns);
        ALL.put("prefetch", Behaviours::prefetch);
        ALL.put("requeue", Behaviours::requeue);
        ALL.put("dead_letter", Behaviours::deadLetter);
        ALL.put("bindings", Behaviours::bindings);
        ALL.put("header_types", Behaviours::headerTypes);
        ALL.put("large_bodies", Behaviours::largeBodies);
        ALL.put("transactions", Behaviours::transactions);
        ALL.put("heartbeats", Behaviours::heartbeats);
        ALL.put("cancel_notify", Behaviours::cancelNotify);
        ALL.put("exclusive_queue", Behaviours::exclusiveQueues);
        ALL.put("server_named_queue", Behaviours::serverNamedQueue);
        ALL.put("blocked", Behaviours::blocked);
        ALL.put("channel_errors", Behaviours::channelErrors);
        ALL.put("connection_errors", Behaviours::connectionErrors);
    }

    private static final int MESSAGES = 200;
    private static final long MOMENT_MS = 1_700_000_000_000L;
    private static final CancelCallback NOT_CANCELLED = tag -> {};

    private Behaviours() {}

    private static void confirms(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        channel.confirmSelect();
        for (int i = 0; i < MESSAGES; i++) {
            Client.send(channel, queue, "m");
        }
        channel.waitForConfirmsOrDie();
        Client.equal("next number", channel.getNextPublishSeqNo(), MESSAGES + 1L);
        Client.equal("messages", Client.count(channel, queue), (long) MESSAGES);
    }

    private static void returns(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        List<Return> returned = new ArrayList<>();
        channel.addReturnListener(returned::add);
        String key = Client.uniqueName("nowhere");
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().messageId("m1").build();
        channel.basicPublish("amq.direct", key, true, properties, Client.bytes("back"));
        channel.waitForConfirmsOrDie();
        Client.equal("returned before the confirm", returned.size(), 1);
        Return back = returned.get(0);
        Client.equal("code", back.getReplyCode(), AMQP.NO_ROUTE);
        Client.equal("text", back.getReplyText(), "NO_ROUTE");
        Client.equal("exchange", back.getExchange(), "amq.direct");
        Client.equal("key", back.getRoutingKey(), key);
        Client.equal("message id", back.getProperties().getMessageId(), "m1");
        Client.equal("body", Client.text(back.getBody()), "back");
    }

    private static void prefetch(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        for (int i = 0; i < 10; i++) {
            Client.send(channel, queue, "" + i);
        }
        Client.eventually(() -> Client.count(channel, queue) == 10);
        channel.basicQos(3);
        BlockingQueue<Delivery> out = new LinkedBlockingQueue<>();
        DeliverCallback deliver = (tag, delivery) -> out.add(delivery);
        channel.basicConsume(queue, deliver, NOT_CANCELLED);
        int taken = take(channel, queue, out, 0, 3);
        channel.basicAck(1, false);
        taken = take(channel, queue, out, taken, 1);
        channel.basicAck(4, true);
        take(channel, queue, out, taken, 3);
    }

    private static int take(Channel channel, String queue, BlockingQueue<Delivery> out, int taken, int count)
            throws Exception {
        int number = taken;
        for (; number < taken + count; number++) {
            Client.equal("order", Client.text(out.take().getBody()), "" + number);
        }
        Client.equal("left in the queue", Client.count(channel, queue), 10L - number);
        return number;
    }

    private static void requeue(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        Client.send(channel, queue, "again");
        GetResponse first = Client.get(channel, queue);
        Client.equal("redelivered", first.getEnvelope().isRedeliver(), false);
        channel.basicNack(first.getEnvelope().getDeliveryTag(), false, true);
        GetResponse second = Client.get(channel, queue);
        Client.equal("redelivered", second.getEnvelope().isRedeliver(), true);
        Client.equal("body", Client.text(second.getBody()), "again");
        channel.basicReject(second.getEnvelope().getDeliveryTag(), false);
        Client.equal("still there", channel.basicGet(queue, true), null);
    }

    private static void deadLetter(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String target = Client.exclusiveQueue(channel);
        String source = Client.exclusiveQueue(
                channel, Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", target));
        Client.send(channel, source, "rejected");
        channel.basicReject(Client.get(channel, source).getEnvelope().getDeliveryTag(), false);
        checkDead(Client.get(channel, target), "rejected", source);
        AMQP.BasicProperties brief = new AMQP.BasicProperties.Builder().expiration("1").build();
        channel.basicPublish("", source, brief, Client.bytes("expired"));
        checkDead(Client.get(channel, target), "expired", source);
    }

    private static void checkDead(GetResponse message, String reason, String source) {
        Client.equal("body", Client.text(message.getBody()), reason);
        Client.equal("expiration", message.getProps().getExpiration(), null);
        Map<String, Object> headers = message.getProps().getHeaders();
        Client.equal("first reason", headers.get("x-first-death-reason").toString(), reason);
        Client.equal("first queue", headers.get("x-first-death-queue").toString(), source);
        List<?> deaths = (List<?>) headers.get("x-death");
        Client.equal("deaths", deaths.size(), 1);
        Map<?, ?> death = (Map<?, ?>) deaths.get(0);
        Client.equal("count", death.get("count"), 1L);
        Client.equal("reason", death.get("reason").toString(), reason);
        Client.equal("queue", death.get("queue").toString(), source);
        Client.equal("exchange", death.get("exchange").toString(), "");
        Client.equal("keys", death.get("routing-keys").toString(), "[" + source + "]");
        Client.equal("time", death.get("time").getClass(), Date.class);
    }

    private static void bindings(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String topic = Client.uniqueName("topic");
        String headers = Client.uniqueName("headers");
        channel.exchangeDeclare(topic, BuiltinExchangeType.TOPIC, true, true, null);
        channel.exchangeDeclare(headers, BuiltinExchangeType.HEADERS, true, true, null);
        String byTopic = Client.exclusiveQueue(channel);
        String byHeaders = Client.exclusiveQueue(channel);
        channel.queueBind(byTopic, topic, "a.*.#");
        channel.exchangeBind(headers, topic, "#");
        channel.queueBind(byHeaders, headers, "", Map.of("x-match", "all", "kind", "urgent", "size", 5));
        Map<String, Object> both = Map.of("kind", "urgent", "size", 5);
        sendWith(channel, topic, "a.b", both);
        sendWith(channel, topic, "a", both);
        sendWith(channel, topic, "a.b.c.d", Map.of("kind", "urgent"));
        Client.eventually(() -> Client.count(channel, byTopic) == 2);
        Client.eventually(() -> Client.count(channel, byHeaders) == 2);
        channel.queueUnbind(byTopic, topic, "a.*.#");
        sendWith(channel, topic, "a.b", both);
        Client.eventually(() -> Client.count(channel, byHeaders) == 3);
        Client.equal("after unbinding", Client.count(channel, byTopic), 2L);
        channel.exchangeDelete(topic);
        channel.exchangeDelete(headers);
    }

    private static void sendWith(Channel channel, String exchange, String key, Map<String, Object> headers)
            throws Exception {
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(headers).build();
        channel.basicPublish(exchange, key, properties, Client.bytes("m"));
    }

    private static void headerTypes(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        Map<String, Object> sent = new HashMap<>();
        sent.put("bool", true);
        sent.put("byte", Byte.MIN_VALUE);
        sent.put("short", Short.MIN_VALUE);
        sent.put("int", Integer.MIN_VALUE);
        sent.put("long", Long.MIN_VALUE);
        sent.put("float", 0.1f);
        sent.put("double", 1e-9);
        sent.put("decimal", new BigDecimal("3.14"));
        sent.put("string", "grüße");
        sent.put("bytes", new byte[] {0, -1, -50});
        sent.put("timestamp", new Date(MOMENT_MS));
        sent.put("array", Arrays.asList(1, "two", null, List.of(false)));
        sent.put("table", Map.of("deep", Map.of("deeper", "deepest"), "empty", Map.of()));
        sent.put("nothing", null);
        AMQP.BasicProperties properties = new AMQP.BasicProperties(
                "application/json", "utf-8", sent, 2, 7, "c1", "somewhere", "60000", "m1",
                new Date(MOMENT_MS), "greeting", "guest", "interop", "cluster");
        channel.basicPublish("", queue, properties, Client.bytes("m"));
        AMQP.BasicProperties got = Client.get(channel, queue).getProps();
        Map<String, Object> received = got.getHeaders();
        Client.equal("names", received.keySet(), sent.keySet());
        sent.forEach((name, value) -> Client.equal(name, plain(received.get(name)), value));
        got = got.builder().headers(sent).build();
        Client.equal("properties", got, properties);
    }

    /** Texts come back as objects of the client's own: turns them into what was sent, at any depth. */
    private static Object plain(Object value) {
        if (value instanceof com.rabbitmq.client.LongString) {
            return value.toString();
        }
        if (value instanceof List<?> list) {
            List<Object> items = new ArrayList<>();
            list.forEach(item -> items.add(plain(item)));
            return items;
        }
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> entries = new HashMap<>();
            map.forEach((key, item) -> entries.put(key, plain(item)));
            return entries;
        }
        return value;
    }

    private static void largeBodies(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        int full = connection.getFrameMax() - 8;
        for (int size : new int[] {0, 1, full - 1, full, full + 1, 5 << 20}) {
            byte[] body = new byte[size];
            new Random(size).nextBytes(body);
            channel.basicPublish("", queue, null, body);
            if (!Arrays.equals(Client.get(channel, queue).getBody(), body)) {
                throw new AssertionError(size + " bytes came back as others");
            }
        }
    }

    private static void transactions(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        Channel observer = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        channel.txSelect();
        Client.send(channel, queue, "never");
        channel.txRollback();
        Client.send(channel, queue, "kept");
        Client.equal("before the commit", Client.count(observer, queue), 0L);
        channel.txCommit();
        Client.equal("after the commit", Client.count(observer, queue), 1L);
        Client.equal("body", Client.text(Client.get(channel, queue).getBody()), "kept");
    }

    private static void heartbeats(Connection unused) throws Exception {
        ConnectionFactory factory = Client.factory();
        factory.setRequestedHeartbeat(1);
        try (Connection connection = factory.newConnection()) {
            Client.equal("negotiated", connection.getHeartbeat(), 1);
            Thread.sleep(4000);
            Client.equal("open", connection.isOpen(), true);
            Client.exclusiveQueue(connection.createChannel());
        }
    }

    private static void cancelNotify(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        CompletableFuture<String> told = new CompletableFuture<>();
        channel.basicConsume(queue, true, "mine", (tag, delivery) -> {}, told::complete);
        channel.queueDelete(queue);
        Client.equal("tag", told.get(), "mine");
        Client.exclusiveQueue(channel);
    }

    private static void exclusiveQueues(Connection connection) throws Exception {
        Connection owner = Client.connect();
        String name = Client.uniqueName("exclusive");
        owner.createChannel().queueDeclare(name, false, true, false, null);
        String text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + name + "' in vhost '/'";
        Channel consuming = connection.createChannel();
        Client.refused(405, text, () -> consuming.basicConsume(name, (tag, delivery) -> {}, NOT_CANCELLED));
        Channel declaring = connection.createChannel();
        Client.refused(405, text, () -> declaring.queueDeclare(name, false, true, false, null));
        Channel purging = connection.createChannel();
        Client.refused(405, text, () -> purging.queuePurge(name));
        owner.close();
        Channel late = connection.createChannel();
        Client.refused(404, "NOT_FOUND - no queue '" + name + "' in vhost '/'", () -> late.queueDeclarePassive(name));
    }

    private static void serverNamedQueue(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String first = Client.exclusiveQueue(channel);
        String second = Client.exclusiveQueue(channel);
        if (!first.matches("amq\\.gen-[\\w-]{22}") || first.equals(second)) {
            throw new AssertionError("named " + first + " and " + second);
        }
        // No name is the queue this channel declared last.
        channel.queueBind("", "amq.fanout", "");
        channel.basicPublish("amq.fanout", "", null, Client.bytes("m"));
        Client.eventually(() -> Client.count(channel, second) == 1);
        Client.equal("in the first", Client.count(channel, first), 0L);
    }

    private static void blocked(Connection unused) throws Exception {
        String url = System.getenv("INTEROP_BLOCKED_URL");
        if (url == null) {
            throw new Main.Skipped("no broker that is low on memory");
        }
        Connection connection = Client.factory(url).newConnection();
        CompletableFuture<String> told = new CompletableFuture<>();
        connection.addBlockedListener(told::complete, () -> {});
        Channel channel = connection.createChannel();
        while (!told.isDone()) {
            channel.basicPublish("amq.fanout", "", null, Client.bytes("m"));
            Thread.sleep(50);
        }
        Client.equal("reason", told.get(), "low on memory");
        connection.abort(100);
    }

    private static void channelErrors(Connection connection) throws Exception {
        String missing = Client.uniqueName("missing");
        String queue = Client.uniqueName("errors");
        Map<String, Object> expires = Map.of("x-expires", 60_000);
        connection.createChannel().queueDeclare(queue, false, true, false, expires);
        Channel passive = connection.createChannel();
        Client.refused(404, "NOT_FOUND - no queue '" + missing + "' in vhost '/'",
                () -> passive.queueDeclarePassive(missing));
        Channel binding = connection.createChannel();
        Client.refused(404, "NOT_FOUND - no exchange '" + missing + "' in vhost '/'",
                () -> binding.queueBind(queue, missing, ""));
        Channel declaring = connection.createChannel();
        Client.refused(406, "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '" + queue
                        + "' in vhost '/': received none but current is the value '60000' of type 'signedint'",
                () -> declaring.queueDeclare(queue, false, true, false, null));
        Channel settling = connection.createChannel();
        settling.basicAck(99, false);
        Client.refused(406, "PRECONDITION_FAILED - unknown delivery tag 99", () -> {
            settling.basicQos(1);
            return null;
        });
        Channel reserving = connection.createChannel();
        Client.refused(403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
                () -> reserving.queueDeclare("amq.mine", false, true, false, null));
        Client.equal("closed", settling.isOpen() || passive.isOpen(), false);
        Client.exclusiveQueue(connection.createChannel());
    }

    private static void connectionErrors(Connection unused) throws Exception {
        Connection connection = Client.connect();
        CompletableFuture<ShutdownSignalException> closed = new CompletableFuture<>();
        connection.addShutdownListener(closed::complete);
        Channel channel = connection.createChannel();
        String queue = Client.exclusiveQueue(channel);
        DeliverCallback deliver = (tag, delivery) -> {};
        channel.basicConsume(queue, true, "twice", deliver, NOT_CANCELLED);
        // Beneath basicConsume, which would refuse it by itself.
        AMQP.Basic.Consume again = new AMQP.Basic.Consume.Builder().queue(queue).consumerTag("twice").build();
        Client.refused(530, "NOT_ALLOWED - attempt to reuse consumer tag 'twice'",
                () -> channel.rpc(again));
        Client.told(closed.get(), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'twice'");

        Connection immediate = Client.connect();
        CompletableFuture<ShutdownSignalException> ended = new CompletableFuture<>();
        immediate.addShutdownListener(ended::complete);
        immediate.createChannel().basicPublish("", "q", false, true, null, new byte[0]);
        Client.told(ended.get(), 540, "NOT_IMPLEMENTED - immediate=true");

        ConnectionFactory wrong = Client.factory();
        wrong.setPassword("not-the-password");
        try {
            wrong.newConnection();
            throw new AssertionError("logged in with the wrong password");
        } catch (AuthenticationFailureException error) {
            String text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.";
            Client.equal(error.getMessage(), error.getMessage().startsWith(text), true);
        }
        ConnectionFactory nowhere = Client.factory();
        nowhere.setVirtualHost("interop-missing");
        Client.refused(530, "NOT_ALLOWED - vhost interop-missing not found", nowhere::newConnection);
    }
}
