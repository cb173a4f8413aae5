import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs JUnit classes and prints a line "PASS|FAIL|SKIP Class.method -- reason" for each test. Arguments: class names; a "-" and
 * what follows it: tests that are left out, as Class.method or Class.*. */
public final class Lines extends RunListener {
  private boolean bad;

  static String name(Description test) {
    String type = test.getClassName();
    return type.substring(type.lastIndexOf('.') + 1) + "." + test.getMethodName();
  }

  static void say(String verdict, Description test, String reason) {
    String text = reason == null ? "" : " -- " + reason.replaceAll("\\s+", " ");
    System.out.println(verdict + " " + name(test) + (text.length() > 300 ? text.substring(0, 300) : text));
    System.out.flush();
  }

  @Override
  public void testStarted(Description test) {
    bad = false;
  }

  @Override
  public void testFailure(Failure failure) {
    if (bad) return;   // what its tear-down says follows from it
    bad = true;
    Throwable root = failure.getException();
    while (root.getCause() != null) root = root.getCause();
    say("FAIL", failure.getDescription(), root.toString());
  }

  @Override
  public void testAssumptionFailure(Failure failure) {
    bad = true;
    say("SKIP", failure.getDescription(), "the test's own assumption: " + failure.getMessage());
  }

  @Override
  public void testFinished(Description test) {
    if (!bad) say("PASS", test, null);
  }

  public static void main(String[] arguments) throws Exception {
    int dash = Arrays.asList(arguments).indexOf("-");
    String[] names = Arrays.copyOf(arguments, dash < 0 ? arguments.length : dash);
    Set<String> leftOut = new HashSet<>();
    if (dash >= 0) leftOut.addAll(Arrays.asList(arguments).subList(dash + 1, arguments.length));
    JUnitCore core = new JUnitCore();
    core.addListener(new Lines());
    for (String name : names) {
      core.run(Request.aClass(Class.forName(name)).filterWith(new Filter() {
        @Override
        public boolean shouldRun(Description test) {
          return !test.isTest() || !leftOut.contains(name(test));
        }

        @Override
        public String describe() {
          return "those that are not left out";
        }
      }));
    }
    System.exit(0);
  }
}
