import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Answers expressions on its standard input with what RE2J makes of them; README.md has the form. */
final class MatchNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            String[] fields = line.split("\t", -1);
            answers.append(line).append('\t').append(answer(fields)).append('\n');
        }
        System.out.write(answers.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String answer(String[] fields) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(fields[0]);
        } catch (PatternSyntaxException invalid) {
            return "!" + invalid.getDescription();
        }
        StringBuilder matched = new StringBuilder();
        for (int name = 1; name < fields.length; name++) {
            matched.append(pattern.matcher(fields[name]).matches() ? '1' : '0');
        }
        return matched.toString();
    }
}
