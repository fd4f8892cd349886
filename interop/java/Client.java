import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.Callable;

/** What the behaviours share: connections, queues, and waiting for facts. */
final class Client {
    private static final long PAUSE_MS = 20;

    private Client() {}

    static ConnectionFactory factory(String url) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        // A lone slash is a nameless virtual host to this client, and no path is "/".
        factory.setUri(url.replaceFirst("/$", ""));
        factory.setAutomaticRecoveryEnabled(false);
        return factory;
    }

    static ConnectionFactory factory() throws Exception {
        String url = System.getenv("INTEROP_URL");
        return factory(url == null ? "amqp://guest:guest@127.0.0.1:5672" : url);
    }

    static Connection connect() throws Exception {
        return factory().newConnection();
    }

    static String uniqueName(String kind) {
        return "interop.java." + kind + "." + UUID.randomUUID().toString().substring(0, 8);
    }

    static String exclusiveQueue(Channel channel, Map<String, Object> arguments) throws IOException {
        return channel.queueDeclare("", false, true, false, arguments).getQueue();
    }

    static String exclusiveQueue(Channel channel) throws IOException {
        return exclusiveQueue(channel, null);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static void send(Channel channel, String queue, String body) throws IOException {
        channel.basicPublish("", queue, null, bytes(body));
    }

    static long count(Channel channel, String queue) throws IOException {
        return channel.messageCount(queue);
    }

    /** Waits for the next message; the limit of the behaviour bounds it. */
    static GetResponse get(Channel channel, String queue) throws Exception {
        for (;;) {
            GetResponse message = channel.basicGet(queue, false);
            if (message != null) {
                return message;
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    static void eventually(Callable<Boolean> check) throws Exception {
        while (!check.call()) {
            Thread.sleep(PAUSE_MS);
        }
    }

    static void equal(String what, Object got, Object wanted) {
        if (!Objects.deepEquals(got, wanted)) {
            throw new AssertionError(what + ": got " + got + ", want " + wanted);
        }
    }

    /** Expects the call to fail because the channel was closed so. */
    static void refused(int code, String reason, Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (IOException error) {
            told((ShutdownSignalException) error.getCause(), code, reason);
            return;
        } catch (ShutdownSignalException error) {
            told(error, code, reason);
            return;
        }
        throw new AssertionError("the call that was to be refused went well");
    }

    static void told(ShutdownSignalException signal, int code, String reason) {
        int got;
        String words;
        if (signal.getReason() instanceof AMQP.Channel.Close close) {
            equal("hard", signal.isHardError(), false);
            got = close.getReplyCode();
            words = close.getReplyText();
        } else {
            AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
            equal("hard", signal.isHardError(), true);
            got = close.getReplyCode();
            words = close.getReplyText();
        }
        equal("code", got, code);
        equal("initiated by the application", signal.isInitiatedByApplication(), false);
        if (!words.startsWith(reason)) {
            throw new AssertionError("got " + words + ", want " + reason);
        }
    }
}
