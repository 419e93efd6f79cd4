import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in this process, because a JVM of its own takes each of them a second.
 * Each line of standard input is one call: {"main": CLASS, "arguments": […], "input": FILE, "output": FILE, "errors": FILE}.
 * The tool has these files as its standard streams. When it has ended, a line "exit CODE" is printed.
 *
 * Each call loads the tools' classes anew, because some keep counts in static fields. Kafka's own classes leave by
 * `Exit`, which records the code here and ends the call.
 */
public final class Tools {
    private static final String ANEW = "org.apache.kafka.tools.";
    private static final String SHARED = "org.apache.kafka.tools.api.";
    private static final String JAR = "kafka-tools-4";
    private static final int NO_CODE = -1;
    private static final Switch OUT = new Switch();
    private static final Switch ERR = new Switch();
    private static final AtomicInteger CODE = new AtomicInteger();
    private static final List<Runnable> HOOKS = new ArrayList<>();

    private Tools() {
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(OUT.stream());
        System.setErr(ERR.stream());
        Exit.setExitProcedure(Tools::leave);
        Exit.setHaltProcedure(Tools::leave);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        ObjectMapper json = new ObjectMapper();
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            int code = call(json.readTree(line));
            answers.println("exit " + code);
            answers.flush();
        }
        System.exit(0);
    }

    private static int call(JsonNode call) throws IOException {
        List<String> arguments = new ArrayList<>();
        call.get("arguments").forEach(one -> arguments.add(one.asText()));
        CODE.set(NO_CODE);
        HOOKS.clear();
        try (InputStream input = Files.newInputStream(Path.of(call.get("input").asText()));
                OutputStream output = Files.newOutputStream(Path.of(call.get("output").asText()));
                OutputStream errors = Files.newOutputStream(Path.of(call.get("errors").asText()));
                URLClassLoader loader = new ToolLoader(toolJars())) {
            System.setIn(input);
            OUT.lead(output);
            ERR.lead(errors);
            Thread.currentThread().setContextClassLoader(loader);
            int code = run(loader, call.get("main").asText(), arguments.toArray(String[]::new));
            HOOKS.forEach(Runnable::run);
            return code;
        } finally {
            OUT.lead(OutputStream.nullOutputStream());
            ERR.lead(OutputStream.nullOutputStream());
        }
    }

    private static int run(ClassLoader loader, String name, String[] arguments) {
        int otherwise = 0;
        try {
            Method main = Class.forName(name, true, loader).getMethod("main", String[].class);
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Left)) {
                e.getCause().printStackTrace();
            }
            otherwise = 1;
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            otherwise = 1;
        }
        System.out.flush();
        System.err.flush();
        return CODE.get() == NO_CODE ? otherwise : CODE.get();
    }

    // The first code counts: a tool may catch what is thrown here, and then leaves again.
    private static void leave(int code, String message) {
        CODE.compareAndSet(NO_CODE, code);
        if (message != null) {
            System.err.println(message);
        }
        throw new Left();
    }

    private static URL[] toolJars() throws IOException {
        List<URL> jars = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(java.io.File.pathSeparator)) {
            Path path = Path.of(entry);
            if (path.getFileName().toString().startsWith(JAR)) {
                jars.add(path.toUri().toURL());
            }
        }
        if (jars.isEmpty()) {
            throw new IOException("there is no " + JAR + " on the class path");
        }
        return jars.toArray(URL[]::new);
    }

    private static final class Left extends Error {
        private static final long serialVersionUID = 1L;

        Left() {
            super("the tool has left", null, false, false);
        }
    }

    private static final class ToolLoader extends URLClassLoader {
        ToolLoader(URL[] jars) {
            super(jars, Tools.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith(ANEW) || name.startsWith(SHARED)) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded == null ? findClass(name) : loaded;
            }
        }
    }

    // Scala and loggers keep the stream that they have seen first, so one stream leads to the files of all calls.
    private static final class Switch extends OutputStream {
        private volatile OutputStream to = OutputStream.nullOutputStream();

        void lead(OutputStream output) {
            to = output;
        }

        PrintStream stream() {
            return new PrintStream(this, true, Charset.defaultCharset()) {
                @Override
                public void close() {
                    flush();
                }
            };
        }

        @Override
        public void write(int one) throws IOException {
            to.write(one);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws IOException {
            to.write(bytes, from, count);
        }

        @Override
        public void flush() throws IOException {
            to.flush();
        }
    }
}
