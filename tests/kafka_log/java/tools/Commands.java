import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the main method of one command after another in one virtual machine.
 *
 * A request on standard input: the number of strings, the strings (class, then arguments; each a length of two bytes
 * and modified UTF-8), the length of what the command reads from its standard input, and that. The answer on standard
 * output: the exit status, then standard output and standard error of the command, each with its length. Integers are
 * four bytes, big-endian. A command ends with its threads; what it wants to have
 * done at the end of the virtual machine is then done.
 */
public final class Commands {

    /** Thrown where a command would have ended the virtual machine. */
    private static final class Ended extends Error {
        private final int status;

        Ended(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    private final List<Runnable> hooks = new ArrayList<>();
    private Ended ended;

    private Commands() {
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
    }

    /** Leaves the command. Only the first time counts: some catch and print whatever is thrown, and exit again. */
    private void end(int status) {
        if (ended == null) {
            ended = new Ended(status);
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw ended;
    }

    private int run(List<String> words) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        Set<Thread> older = Thread.getAllStackTraces().keySet();
        ended = null;
        String[] arguments = words.subList(1, words.size()).toArray(new String[0]);
        try {
            Class.forName(words.get(0)).getMethod("main", String[].class).invoke(null, (Object) arguments);
            if (ended != null) {
                return ended.status;
            }
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (!thread.isDaemon() && !older.contains(thread)) {
                    thread.join();
                }
            }
            return 0;
        } catch (InvocationTargetException thrown) {
            if (ended != null) {
                return ended.status;
            }
            thrown.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException | InterruptedException wrong) {
            wrong.printStackTrace();
            return 127;
        } finally {
            System.setOut(out);
            System.setErr(err);
            hooks.forEach(Runnable::run);
            hooks.clear();
        }
    }

    private void serve(DataInputStream requests, DataOutputStream answers) throws IOException {
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException end) {
                return;
            }
            List<String> words = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                words.add(requests.readUTF());
            }
            System.setIn(new ByteArrayInputStream(requests.readNBytes(requests.readInt())));
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            int status = run(words);
            answers.writeInt(status);
            for (ByteArrayOutputStream stream : List.of(said, complained)) {
                answers.writeInt(stream.size());
                stream.writeTo(answers);
            }
            answers.flush();
        }
    }

    public static void main(String[] none) throws IOException {
        InputStream in = System.in;
        PrintStream out = System.out;
        new Commands().serve(new DataInputStream(in), new DataOutputStream(out));
        Runtime.getRuntime().halt(0);
    }
}
