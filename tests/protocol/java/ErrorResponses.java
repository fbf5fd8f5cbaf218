import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Asks Kafka's own requests for their error responses.
 *
 * Input: a line for each request with its API key, its version, an error code, a message ("-": the error's own) and its
 * body in hexadecimal digits, separated by tabs. Output: a line for each with the body of the response, "-" where Kafka
 * has no response or no such version, or "!" and the exception that the request fails with.
 */
public final class ErrorResponses {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String response;
            try {
                response = errorResponse(line.split("\t", -1));
            } catch (RuntimeException fails) {
                response = "! " + fails;
            }
            System.out.println(response);
        }
    }

    private static String errorResponse(String[] fields) {
        ApiKeys api = ApiKeys.forId(Short.parseShort(fields[0]));
        short version = Short.parseShort(fields[1]);
        Errors error = Errors.forCode(Short.parseShort(fields[2]));
        if (!api.isVersionSupported(version)) {
            return "-";
        }
        ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(fields[4]));
        AbstractRequest request =
            AbstractRequest.parseRequest(api, version, new ByteBufferAccessor(body)).request;
        AbstractResponse response = request.getErrorResponse(
            0, fields[3].equals("-") ? error.exception() : error.exception(fields[3]));
        if (response == null) {
            return "-";
        }
        ByteBuffer written = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
