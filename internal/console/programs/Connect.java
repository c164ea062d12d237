import com.sun.net.httpserver.*;
import java.net.*;
import java.net.http.*;
import java.security.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import static java.nio.charset.StandardCharsets.UTF_8;

public class Connect {
    static final String ISSUER = "https://127.0.0.1:8443/oauth2/api";
    static final String REDIRECT_URI = "http://localhost:8080/callback";
    static final String CLIENT_ID = System.getenv("CLIENT_ID"), CLIENT_SECRET = System.getenv("CLIENT_SECRET");

    static final HttpClient http = HttpClient.newHttpClient();
    static final Map<String, String> logins = new ConcurrentHashMap<>(); // PKCE verifiers by state; in production, in the session
    static String refreshToken; // in production, with the user's record
    static String metadata;

    public static void main(String[] args) throws Exception {
        var issuer = URI.create(ISSUER);
        var wellKnown = issuer.resolve("/.well-known/oauth-authorization-server" + issuer.getPath()); // RFC 8414
        metadata = http.send(HttpRequest.newBuilder(wellKnown).build(), HttpResponse.BodyHandlers.ofString()).body();
        var server = HttpServer.create(new InetSocketAddress("localhost", 8080), 0);
        page(server, "/login", Connect::login);
        page(server, "/callback", Connect::callback);
        page(server, "/refresh", Connect::refresh);
        server.start();
        System.out.println("open http://localhost:8080/login");
    }

    static String login(HttpExchange x) throws Exception {
        String state = random(), verifier = random();
        logins.put(state, verifier);
        var challenge = base64(MessageDigest.getInstance("SHA-256").digest(verifier.getBytes(UTF_8)));
        x.getResponseHeaders().add("Location", member(metadata, "authorization_endpoint") + "?" + form(Map.of(
            "response_type", "code", "client_id", CLIENT_ID, "redirect_uri", REDIRECT_URI, "scope", "openid profile", "state", state,
            "code_challenge", challenge, "code_challenge_method", "S256")));
        x.getResponseHeaders().add("Set-Cookie", "login=" + state + "; HttpOnly; SameSite=Lax; Path=/callback"); // add Secure with https
        return null;
    }

    static String callback(HttpExchange x) throws Exception {
        var query = new HashMap<String, String>();
        for (var pair : x.getRequestURI().getRawQuery().split("&")) {
            var parts = pair.split("=", 2);
            query.put(parts[0], URLDecoder.decode(parts[1], UTF_8));
        }
        var state = query.getOrDefault("state", "");
        var verifier = logins.remove(state);
        var cookies = String.valueOf(x.getRequestHeaders().getFirst("Cookie"));
        // The cookie proves that this browser began the login; iss that it is this server's answer (RFC 9207).
        if (verifier == null || !cookies.contains("login=" + state) || !ISSUER.equals(query.get("iss"))) throw new Exception("not a login of ours");
        if (query.containsKey("error")) throw new Exception(query.get("error"));
        var answer = requestTokens(Map.of("grant_type", "authorization_code", "code", query.get("code"),
            "redirect_uri", REDIRECT_URI, "code_verifier", verifier));
        return "signed in as " + member(userOf(answer), "name");
    }

    // Who has signed in (OpenID Connect). Know the user by sub, and show the name.
    static String userOf(String pair) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(member(metadata, "userinfo_endpoint")))
            .header("Authorization", "Bearer " + member(pair, "access_token")).build();
        var response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) throw new Exception("userinfo: " + response.statusCode());
        return response.body();
    }

    static String refresh(HttpExchange x) throws Exception {
        requestTokens(Map.of("grant_type", "refresh_token", "refresh_token", refreshToken));
        return "refreshed";
    }

    static String requestTokens(Map<String, String> form) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(member(metadata, "token_endpoint")))
            .header("Authorization", "Basic " + Base64.getEncoder().encodeToString((CLIENT_ID + ":" + CLIENT_SECRET).getBytes(UTF_8)))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .POST(HttpRequest.BodyPublishers.ofString(form(form))).build();
        var response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) throw new Exception(response.statusCode() + " " + response.body());
        refreshToken = member(response.body(), "refresh_token");
        return response.body();
    }

    // A member of a JSON object that is a plain string, as all of these are. Your JSON library does it better.
    static String member(String json, String name) {
        var m = Pattern.compile("\"" + name + "\"\\s*:\\s*\"([^\"]*)\"").matcher(json);
        if (!m.find()) throw new IllegalArgumentException(name + " is missing");
        return m.group(1).replace("\\u0026", "&").replace("\\/", "/");
    }

    static String form(Map<String, String> values) {
        var joined = new StringJoiner("&");
        values.forEach((name, value) -> joined.add(name + "=" + URLEncoder.encode(value, UTF_8)));
        return joined.toString();
    }

    static String random() {
        var bytes = new byte[32];
        new SecureRandom().nextBytes(bytes);
        return base64(bytes);
    }

    static String base64(byte[] bytes) { return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes); }

    interface Page { String answer(HttpExchange x) throws Exception; }

    static void page(HttpServer server, String path, Page page) {
        server.createContext(path, x -> {
            int status = 200;
            String text;
            try {
                text = page.answer(x);
            } catch (Exception e) {
                status = 400;
                text = e.getMessage();
            }
            x.getResponseHeaders().add("Content-Type", "text/plain; charset=utf-8"); // names are not HTML
            if (text == null) {
                x.sendResponseHeaders(303, -1);
            } else {
                x.sendResponseHeaders(status, text.getBytes(UTF_8).length);
                x.getResponseBody().write(text.getBytes(UTF_8));
            }
            x.close();
        });
    }
}
