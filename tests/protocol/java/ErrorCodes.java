import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints every error of Kafka as a line: code, name, whether clients may retry, message. */
public class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println(error.code() + "\t" + error.name() + "\t" + retriable + "\t" + error.message());
        }
    }
}
