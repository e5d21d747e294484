// One run of one cell on mqpg or on RocketMQ, by threads of one program. It prints how many messages and in how
// many seconds; for `latency` also the milliseconds from send to receipt (p50, p99).
//
//   java -cp … Bench.java mqpg|rocketmq CELL CLIENTS SECONDS
//
// QUEUE_JDBC_URL and SHOP_JDBC_URL are the queue's and the business's database, NAMESRV is RocketMQ's name server.

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.postgresql.PGConnection;

public class Bench {
    static final String TOPIC = "bench", GROUP = "bench", PAD = "x".repeat(200);
    static final String INSERT = "insert into business values (?, ?)";
    static final int BATCH = 100;
    static final double WARM_UP = 3; // seconds
    static final double PACE = 200; // messages a second of the latency cell

    // One client's next call. It returns how many messages it was.
    interface Call {
        int make() throws Exception;
    }

    static volatile boolean stopped;
    static volatile double from = Double.MAX_VALUE, until = Double.MAX_VALUE; // the measured time
    static final AtomicLong sent = new AtomicLong(), received = new AtomicLong();
    static final List<Double> waits = Collections.synchronizedList(new ArrayList<>());
    static final BlockingQueue<String> undecided = new ArrayBlockingQueue<>(1000); // if it is full, clients wait
    static final List<Throwable> failed = Collections.synchronizedList(new ArrayList<>());

    public static void main(String[] args) throws Exception {
        boolean ours = args[0].equals("mqpg");
        String cell = args[1];
        int clients = Integer.parseInt(args[2]);
        boolean paced = cell.equals("latency"), consuming = paced || cell.equals("end-to-end");
        DefaultMQProducer producer = ours ? null : rocketProducer(cell);
        CountDownLatch ready = new CountDownLatch(clients);
        List<Thread> threads = new ArrayList<>();
        if (consuming && ours) threads.add(started(Bench::consume));
        if (consuming && !ours) rocketConsumer();
        if (ours && cell.equals("transaction-background")) threads.add(started(Bench::decide));
        for (int client = 0; client < clients; client++) {
            threads.add(started(() -> {
                Call call = ours ? mqpgCall(cell) : rocketCall(cell, producer);
                call.make();
                ready.countDown();
                while (!stopped) {
                    int messages = call.make();
                    if (isMeasured(now())) sent.addAndGet(messages);
                    if (paced) Thread.sleep((long) (1000 * clients / PACE));
                }
                return null;
            }));
        }
        while (ready.getCount() > 0 && failed.isEmpty()) Thread.sleep(50);
        double seconds = Double.parseDouble(args[3]);
        from = now() + WARM_UP;
        until = from + seconds;
        while (now() < until && failed.isEmpty()) Thread.sleep(50);
        stopped = true;
        for (Thread thread : threads) thread.join();
        if (!failed.isEmpty()) {
            failed.get(0).printStackTrace();
            System.exit(1);
        }
        System.out.print((consuming ? received : sent).get() + " " + seconds);
        System.out.println(paced ? " " + quantile(0.5) + " " + quantile(0.99) : "");
        System.exit(0); // RocketMQ's client leaves threads behind
    }

    static Thread started(java.util.concurrent.Callable<?> work) {
        Thread thread = new Thread(() -> {
            try {
                work.call();
            } catch (Throwable error) {
                failed.add(error);
            }
        });
        thread.start();
        return thread;
    }

    static double now() {
        return System.nanoTime() / 1e9;
    }

    static boolean isMeasured(double time) {
        return time >= from && time < until;
    }

    static double quantile(double q) {
        List<Double> sorted = new ArrayList<>(waits);
        Collections.sort(sorted);
        return sorted.get((int) (sorted.size() * q)) * 1000;
    }

    // 250 bytes, with the time
    static String body() {
        return String.format("{\"sent\": \"%020.9f\", \"pad\": \"%s\"}", now(), PAD);
    }

    static void note(String body) {
        double now = now();
        if (!isMeasured(now)) return;
        received.incrementAndGet();
        waits.add(now - Double.parseDouble(body.substring(10, 30)));
    }

    // mqpg, by the JDBC driver alone

    static Connection connected(String variable) throws SQLException {
        return DriverManager.getConnection(System.getenv(variable));
    }

    static Call mqpgCall(String cell) throws SQLException {
        Connection queue = connected("QUEUE_JDBC_URL");
        PreparedStatement send = queue.prepareStatement("select mqpg.send('bench', ?::text)");
        PreparedStatement batch = queue.prepareStatement("select count(*) from mqpg.send_batch('bench', ?)");
        PreparedStatement prepare = queue.prepareStatement("select mqpg.prepare('bench', ?::text, 'bench')");
        PreparedStatement commit = queue.prepareStatement("select mqpg.commit(?)");
        switch (cell) {
            case "send-100":
                return () -> {
                    String[] bodies = new String[BATCH];
                    Arrays.setAll(bodies, index -> body());
                    batch.setArray(1, queue.createArrayOf("text", bodies));
                    batch.executeQuery().close();
                    return BATCH;
                };
            case "half-commit":
                return () -> {
                    value(commit, value(prepare, body()));
                    return 1;
                };
            case "transaction-one-database":
                PreparedStatement beside = queue.prepareStatement(INSERT);
                queue.setAutoCommit(false);
                return () -> {
                    business(beside, UUID.randomUUID().toString());
                    value(send, body());
                    queue.commit();
                    return 1;
                };
            case "transaction", "transaction-background":
                boolean later = cell.endsWith("background");
                Connection shop = connected("SHOP_JDBC_URL");
                PreparedStatement ledger = shop.prepareStatement("insert into ledger values (?, 'local')");
                PreparedStatement insert = shop.prepareStatement(INSERT);
                shop.setAutoCommit(false);
                return () -> {
                    String handle = value(prepare, body());
                    ledger.setString(1, handle);
                    ledger.executeUpdate();
                    business(insert, handle);
                    shop.commit();
                    if (later) undecided.put(handle);
                    else value(commit, handle);
                    return 1;
                };
            default:
                return () -> {
                    value(send, body());
                    return 1;
                };
        }
    }

    // What a producer does that decides in the background, as RocketMQ's one-way commit
    static Object decide() throws Exception {
        Connection queue = connected("QUEUE_JDBC_URL");
        PreparedStatement commit = queue.prepareStatement("select count(*) from mqpg.commit_batch(?)");
        while (!stopped || !undecided.isEmpty()) {
            List<String> handles = new ArrayList<>();
            if (undecided.drainTo(handles, BATCH) == 0) {
                Thread.sleep(1);
                continue;
            }
            commit.setArray(1, queue.createArrayOf("text", handles.toArray()));
            commit.executeQuery().close();
        }
        return null;
    }

    static String value(PreparedStatement statement, String argument) throws SQLException {
        statement.setString(1, argument);
        try (ResultSet result = statement.executeQuery()) {
            result.next();
            return result.getString(1);
        }
    }

    static void business(PreparedStatement insert, String id) throws SQLException {
        insert.setString(1, id);
        insert.setString(2, PAD);
        insert.executeUpdate();
    }

    static Object consume() throws Exception {
        Connection queue = connected("QUEUE_JDBC_URL");
        queue.createStatement().execute("select mqpg.seek('bench', 'bench', 'latest')"); // RocketMQ begins there, too
        queue.createStatement().execute("listen mqpg");
        PGConnection notified = queue.unwrap(PGConnection.class);
        String sql = "select receipt, payload::text from mqpg.receive('bench', 'bench', max_messages => 1000)";
        PreparedStatement receive = queue.prepareStatement(sql);
        PreparedStatement ack = queue.prepareStatement("select mqpg.ack(?)");
        while (!stopped) {
            String receipt = null;
            try (ResultSet result = receive.executeQuery()) {
                while (result.next()) {
                    receipt = result.getString(1);
                    note(result.getString(2));
                }
            }
            if (receipt == null) notified.getNotifications(100);
            else value(ack, receipt);
        }
        return null;
    }

    // RocketMQ

    static DefaultMQProducer rocketProducer(String cell) throws Exception {
        boolean transactional = cell.equals("half-commit") || cell.startsWith("transaction");
        DefaultMQProducer producer = transactional ? new TransactionMQProducer(GROUP) : new DefaultMQProducer(GROUP);
        if (transactional) ((TransactionMQProducer) producer).setTransactionListener(new Local());
        producer.setNamesrvAddr(System.getenv("NAMESRV"));
        producer.setSendMsgTimeout(30_000); // a busy machine is slow, not wrong
        producer.start();
        return producer;
    }

    static Call rocketCall(String cell, DefaultMQProducer producer) throws SQLException {
        if (cell.equals("send-100")) {
            return () -> {
                List<Message> messages = new ArrayList<>();
                for (int i = 0; i < BATCH; i++) messages.add(rocketMessage());
                require(producer.send(messages).getSendStatus());
                return BATCH;
            };
        }
        if (producer instanceof TransactionMQProducer transactional) {
            Insert insert = cell.startsWith("transaction") ? new Insert() : null;
            return () -> {
                require(transactional.sendMessageInTransaction(rocketMessage(), insert).getSendStatus());
                return 1;
            };
        }
        return () -> {
            require(producer.send(rocketMessage()).getSendStatus());
            return 1;
        };
    }

    static void require(SendStatus status) {
        if (status != SendStatus.SEND_OK) throw new IllegalStateException(status.toString());
    }

    static Message rocketMessage() {
        return new Message(TOPIC, body().getBytes(StandardCharsets.UTF_8));
    }

    // The local transaction of one client.
    static class Insert {
        final Connection shop = connected("SHOP_JDBC_URL");
        final PreparedStatement insert = shop.prepareStatement(INSERT);

        Insert() throws SQLException {
            shop.setAutoCommit(false);
        }

        void commit(String id) throws SQLException {
            business(insert, id);
            shop.commit();
        }
    }

    static class Local implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object insert) {
            try {
                if (insert != null) ((Insert) insert).commit(message.getTransactionId());
            } catch (SQLException error) {
                failed.add(error);
            }
            return LocalTransactionState.COMMIT_MESSAGE;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }

    static void rocketConsumer() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(System.getenv("NAMESRV"));
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) note(new String(message.getBody(), StandardCharsets.UTF_8));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }
}
