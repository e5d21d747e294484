// A transactional producer (T2, T3) and a transactional consumer (C1) from Java, with PostgreSQL's
// ordinary JDBC driver only. The shop's tables are in another database than the queue. The invoices
// are in the database of the queue.
//
//   export BROKER_JDBC_URL='jdbc:postgresql://localhost:5432/mqpg?user=…&password=…'
//   export SHOP_JDBC_URL='jdbc:postgresql://localhost:5432/shop?user=…&password=…'
//   alias shop='java -cp postgresql-42.7.4.jar Shop.java'     (a JDK, 17 or newer)
//   shop setup
//   shop sell 7 [before|after]    dies before or after the local transaction
//   shop check                    decides the half messages that sellers left undecided
//   shop bill [before]            handles what is there; dies before its transaction commits

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.ArrayList;
import java.util.List;

public class Shop {
    static final String TOPIC = "shop-java", SELLERS = "shop-java", BILLING = "billing-java";
    static final String DUPLICATE_KEY = "23505", LOCKED = "55P03";

    public static void main(String[] args) throws SQLException {
        String command = args.length > 0 ? args[0] : "";
        try (Connection broker = DriverManager.getConnection(System.getenv("BROKER_JDBC_URL"));
                Connection shop = DriverManager.getConnection(System.getenv("SHOP_JDBC_URL"))) {
            switch (command) {
                case "setup" -> setup(broker, shop);
                case "sell" -> sell(broker, shop, Integer.parseInt(args[1]), args.length > 2 ? args[2] : "");
                case "check" -> check(broker, shop);
                case "bill" -> bill(broker, args.length > 1 ? args[1] : "");
                default -> throw new IllegalArgumentException("setup | sell ID [before|after] | check | bill [before]");
            }
        }
    }

    static void setup(Connection broker, Connection shop) throws SQLException {
        call(broker, "select mqpg.create_topic(?, queues => 1)", TOPIC);
        call(broker, "select mqpg.create_producer_group(?, check_after => '500 ms', checker => 'due_checks')", SELLERS);
        call(broker, "select mqpg.subscribe(?, ?, retry_delay => '1 s')", BILLING, TOPIC);
        update(broker, "create table if not exists invoices (order_id int primary key)");
        update(shop, "create table if not exists orders (id int primary key)");
        // The local transaction and the check-back insert under the same primary key, so only one of
        // them can succeed.
        update(shop, "create table if not exists ledger (handle text primary key, entry text not null)");
    }

    // T2: step 1 is the half message, committed before step 2 begins. Step 2 is the local transaction
    // with the handle first. Step 3 is the decision.
    static void sell(Connection broker, Connection shop, int id, String death) throws SQLException {
        String body = "{\"id\": " + id + "}";
        String key = String.valueOf(id);
        String handle = call(broker, "select mqpg.prepare(?, ?::text, ?, key => ?)", TOPIC, body, SELLERS, key);
        dieHere("before", death);
        shop.setAutoCommit(false);
        try {
            update(shop, "insert into ledger values (?, 'local')", handle);
            update(shop, "insert into orders values (?)", id);
            shop.commit();
        } catch (SQLException error) {
            shop.rollback();
            call(broker, "select mqpg.rollback(?)", handle);
            throw error;
        }
        dieHere("after", death);
        System.out.println(id + " " + call(broker, "select mqpg.commit(?)", handle));
    }

    // T3: run this every second or so. After an error the others wait until their lease ends. Then
    // they are handed out again.
    static void check(Connection broker, Connection shop) throws SQLException {
        update(shop, "set lock_timeout = '200ms'");
        update(shop, "set synchronous_commit = on");
        List<String[]> due = rows(broker, "select handle, payload ->> 'id' from mqpg.due_checks(?)", SELLERS);
        for (String[] half : due) {
            String verdict = verdict(shop, half[0]);
            switch (verdict) {
                case "commit" -> call(broker, "select mqpg.commit(?)", half[0]);
                case "rollback" -> call(broker, "select mqpg.rollback(?)", half[0]);
                default -> call(broker, "select mqpg.check_wait(?, retry_after => '500 ms')", half[0]);
            }
            System.out.println(half[1] + " " + verdict);
        }
    }

    // Insert the fence. Where that succeeds, the local transaction has not committed and no longer can.
    static String verdict(Connection shop, String handle) throws SQLException {
        try {
            update(shop, "insert into ledger values (?, 'fence')", handle);
            return "rollback";
        } catch (SQLException error) {
            if (error.getSQLState().equals(LOCKED)) return "wait"; // the local transaction is open
            if (!error.getSQLState().equals(DUPLICATE_KEY)) throw error;
        }
        // A new statement is needed, because the one that failed on the row cannot have seen it.
        // Writing the row makes the server flush its log, and with it the local commit, which may
        // have been asynchronous.
        String entry = call(shop, "update ledger set entry = entry where handle = ? returning entry", handle);
        return entry.equals("local") ? "commit" : "rollback"; // a fence may be our own, from before a crash
    }

    // C1: receive, effect and acknowledgement are one transaction, so each effect happens once. An
    // effect that fails is undone by its savepoint, and its message comes again, later.
    static void bill(Connection broker, String death) throws SQLException {
        broker.setAutoCommit(false);
        String receive = "select message_id, payload ->> 'id', receipt from mqpg.receive(?, ?)";
        List<String[]> delivery;
        while (!(delivery = rows(broker, receive, BILLING, TOPIC)).isEmpty()) {
            String receipt = delivery.get(0)[2];
            int done = 0;
            for (String[] message : delivery) {
                Savepoint before = broker.setSavepoint();
                try {
                    update(broker, "insert into invoices values (?::int)", message[1]);
                    done++;
                    System.out.println(message[1] + " billed");
                } catch (SQLException error) {
                    broker.rollback(before);
                    String nack = "select mqpg.nack(?, array[?::bigint], reason => ?)";
                    call(broker, nack, receipt, message[0], error.getMessage());
                    System.out.println(message[1] + " failed");
                }
            }
            if (done > 0) call(broker, "select mqpg.ack(?)", receipt); // those that did not fail
            dieHere("before", death);
            broker.commit();
        }
        broker.rollback();
    }

    static void dieHere(String point, String chosen) {
        if (point.equals(chosen)) Runtime.getRuntime().halt(9);
    }

    static String call(Connection connection, String sql, Object... values) throws SQLException {
        List<String[]> found = rows(connection, sql, values);
        return found.isEmpty() ? null : found.get(0)[0];
    }

    static List<String[]> rows(Connection connection, String sql, Object... values) throws SQLException {
        List<String[]> found = new ArrayList<>();
        try (PreparedStatement statement = prepared(connection, sql, values);
                ResultSet result = statement.executeQuery()) {
            int columns = result.getMetaData().getColumnCount();
            while (result.next()) {
                String[] row = new String[columns];
                for (int column = 0; column < columns; column++) row[column] = result.getString(column + 1);
                found.add(row);
            }
        }
        return found;
    }

    static void update(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(connection, sql, values)) {
            statement.executeUpdate();
        }
    }

    static PreparedStatement prepared(Connection connection, String sql, Object... values) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int index = 0; index < values.length; index++) statement.setObject(index + 1, values[index]);
        return statement;
    }
}
