package conformance_test

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/storetest"
)

// table contains every step that a single request to a standard deployment can reach, in
// order. Four steps need a connection or deployment of their own: H2 is in TestTL01, H4
// in TestTL08 and TestTL09, H5 in TestTG27, H6 in TestCA22.
func table() []row {
	return slices.Concat(requestRows, clientRows, grantRows, faultRows)
}

func invalid(step, name, description string, spoil func(*flow)) row {
	return row{step: step, name: name, status: http.StatusBadRequest, code: "invalid_request", description: description, spoil: spoil}
}

func (r row) only(kinds []string) row {
	r.kinds = kinds
	return r
}

func method(m string) row {
	return row{
		step: "H1", name: m, status: http.StatusMethodNotAllowed, code: "invalid_request", description: "method must be POST",
		header: []string{"Allow: POST"}, spoil: func(x *flow) { x.req.method = m },
	}
}

func tooLarge(name string, spoil func(*flow)) row {
	return row{
		step: "H3", name: name, status: http.StatusRequestEntityTooLarge, code: "invalid_request", description: "request too large",
		header: []string{"Connection: close"}, spoil: spoil,
	}
}

const (
	contentType = "content type must be application/x-www-form-urlencoded"
	badBody     = "malformed request body"
	badValue    = "malformed parameter value"
	misplaced   = "parameters belong in the request body"
	noRealm     = "unknown realm"
)

var requestRows = []row{
	method(http.MethodGet), method(http.MethodHead), method(http.MethodPut), method(http.MethodPatch),
	method(http.MethodDelete), method(http.MethodOptions), method("BREW"),

	tooLarge("one byte more", func(x *flow) { x.body(strings.Repeat("a", 64<<10+1)) }),
	tooLarge("good pairs first", func(x *flow) { x.body(x.good.Encode() + "&x=" + strings.Repeat("a", 64<<10)) }),
	tooLarge("chunked", func(x *flow) {
		x.req.set("Transfer-Encoding", "chunked")
		x.body("10001\r\n" + strings.Repeat("a", 64<<10+1) + "\r\n0\r\n\r\n")
	}),

	tooLarge("as JSON", func(x *flow) {
		x.req.set("Content-Type", "application/json")
		x.body(strings.Repeat("a", 64<<10+1))
	}),
	tooLarge("compressed, without a content type", func(x *flow) {
		x.req.set("Content-Type", "")
		x.req.set("Content-Encoding", "gzip")
		x.body(strings.Repeat("a", 64<<10+1))
	}),

	invalid("F1", "no content type", contentType, func(x *flow) { x.req.set("Content-Type", "") }),
	invalid("F1", "JSON", contentType, func(x *flow) {
		x.req.set("Content-Type", "application/json")
		x.body(`{"grant_type":"` + x.kind + `"}`)
	}),
	invalid("F1", "form labelled as text", contentType, func(x *flow) { x.req.set("Content-Type", "text/plain") }),
	invalid("F1", "two", contentType, func(x *flow) {
		x.req.header = append(x.req.header, "Content-Type: application/x-www-form-urlencoded")
	}),
	invalid("F1", "latin charset", contentType, func(x *flow) {
		x.req.set("Content-Type", "application/x-www-form-urlencoded; charset=ISO-8859-1")
	}),
	invalid("F2", "gzip", "content encoding not supported", func(x *flow) { x.req.set("Content-Encoding", "gzip") }),
	invalid("F2", "identity", "content encoding not supported", func(x *flow) { x.req.set("Content-Encoding", "identity") }),
	invalid("F3", "bad escape", badBody, func(x *flow) { x.body(x.good.Encode() + "&x=%zz") }),
	invalid("F3", "escape cut off", badBody, func(x *flow) { x.body(x.good.Encode() + "&x=%4") }),
	invalid("F3", "semicolon", badBody, func(x *flow) { x.body(x.good.Encode() + ";x=1") }),
	invalid("F3", "65 pairs", badBody, func(x *flow) { x.body(x.good.Encode() + strings.Repeat("&x=1", 65)) }),
	invalid("F3", "bad escape in the query", badBody, func(x *flow) { x.req.target += "&x=%zz" }),
	invalid("F4", "NUL", badValue, func(x *flow) { x.body(x.good.Encode() + "&x=%00") }),
	invalid("F4", "raw NUL", badValue, func(x *flow) { x.body(x.good.Encode() + "&x=\x00") }),
	invalid("F4", "control", badValue, func(x *flow) { x.body(x.good.Encode() + "&x=%1f") }),
	invalid("F4", "invalid UTF-8", badValue, func(x *flow) { x.body(x.good.Encode() + "&x=%ff") }),
	invalid("F4", "byte order mark", badValue, func(x *flow) { x.body("\ufeff" + x.good.Encode()) }),

	invalid("P1", "grant_type, equal values", "parameter repeated", func(x *flow) { x.body(x.good.Encode() + "&grant_type=" + x.kind) }),
	invalid("P1", "unknown parameter", "parameter repeated", func(x *flow) { x.body(x.good.Encode() + "&x=1&x=2") }),
	invalid("P1", "body and query", "parameter repeated", func(x *flow) { x.req.target += "&client_id=" + x.client.ID }),
	invalid("P2", "all in the query", misplaced, func(x *flow) {
		x.req.target += "&" + x.good.Encode()
		x.body("")
	}),
	invalid("P2", "client_secret in the query", misplaced, func(x *flow) {
		x.set("client_secret", "")
		x.req.target += "&client_secret=" + x.client.secret
	}),
	invalid("P3", "missing", noRealm, func(x *flow) { x.req.target = "/oauth2/access_token" }),
	invalid("P3", "unknown", noRealm, func(x *flow) { x.req.target = "/oauth2/access_token?realm=/other" }),
	invalid("P3", "twice", noRealm, func(x *flow) { x.req.target += "&realm=/api" }),
	invalid("P3", "another than the path's", noRealm, func(x *flow) { x.req.target = "/oauth2/api/access_token?realm=/other" }),
	invalid("P4", "client_id", "parameter too long", func(x *flow) { x.set("client_id", strings.Repeat("c", 256)) }),
	invalid("P4", "code", "parameter too long", func(x *flow) { x.set("code", strings.Repeat("c", 4096)) }).only(onlyCode),
	invalid("P4", "refresh_token", "parameter too long", func(x *flow) { x.set("refresh_token", strings.Repeat("c", 4096)) }).only(onlyRefresh),

	invalid("T1", "missing", "grant_type missing", func(x *flow) { x.set("grant_type", "") }),
	invalid("T1", "empty", "grant_type missing", func(x *flow) { x.req.form["grant_type"] = []string{""} }),
	unsupported("password"), unsupported("implicit"),
	unsupported("Authorization_Code"), unsupported("REFRESH_TOKEN"), unsupported(" refresh_token"), unsupported("authorization_code "),
	unsupported("urn:ietf:params:oauth:grant-type:device_code"),
	invalid("T3", "code missing", "code missing", func(x *flow) { x.set("code", "") }).only(onlyCode),
	invalid("T3", "code empty", "code missing", func(x *flow) { x.req.form["code"] = []string{""} }).only(onlyCode),
	invalid("T3", "redirect_uri missing", "redirect_uri missing", func(x *flow) { x.set("redirect_uri", "") }).only(onlyCode),
	invalid("T3", "redirect_uri empty", "redirect_uri missing", func(x *flow) { x.req.form["redirect_uri"] = []string{""} }).only(onlyCode),
	invalid("T3", "code_verifier too short", malformedVerifier, func(x *flow) { x.set("code_verifier", verifier[:42]) }).only(onlyCode),
	invalid("T3", "code_verifier too long", malformedVerifier, func(x *flow) { x.set("code_verifier", strings.Repeat("a", 129)) }).only(onlyCode),
	invalid("T3", "code_verifier padded", malformedVerifier, func(x *flow) { x.set("code_verifier", verifier+"=") }).only(onlyCode),
	invalid("T3", "code_verifier with an illegal character", malformedVerifier, func(x *flow) { x.set("code_verifier", verifier[:42]+"+") }).only(onlyCode),
	invalid("T3", "refresh_token missing", "refresh_token missing", func(x *flow) { x.set("refresh_token", "") }).only(onlyRefresh),
	invalid("T3", "refresh_token empty", "refresh_token missing", func(x *flow) { x.req.form["refresh_token"] = []string{""} }).only(onlyRefresh),
}

const malformedVerifier = "code_verifier malformed"

func unsupported(grantType string) row {
	return row{
		step: "T2", name: grantType, status: http.StatusBadRequest, code: "unsupported_grant_type", description: "grant type not supported",
		spoil: func(x *flow) { x.set("grant_type", grantType) },
	}
}

var faultRows = []row{
	unavailable("the store cannot be written", onlyCode, storetest.CreateGrant),
	unavailable("the store cannot be written", onlyRefresh, storetest.UpdateGrant),
	bug("panic before the write", onlyCode, storetest.CreateGrant),
	bug("panic before the write", onlyRefresh, storetest.UpdateGrant),
}

func unavailable(name string, kinds []string, operation storetest.Method) row {
	return row{
		step: "E1", name: name, kinds: kinds, status: http.StatusServiceUnavailable, code: "temporarily_unavailable",
		description: "try again later", header: []string{"Retry-After: N"},
		spoil: func(x *flow) {
			x.faulty.Before(failing(operation))
		},
	}
}

func bug(name string, kinds []string, operation storetest.Method) row {
	return row{
		step: "E2", name: name, kinds: kinds, status: http.StatusInternalServerError, code: "server_error", description: "internal error",
		spoil: func(x *flow) {
			x.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
				if op == operation {
					panic("a bug that must not be told to strangers")
				}
				return nil
			})
		},
	}
}
