package conformance_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mintage/mintage/internal/server"
)

// Every response in the tests of this package is validated against the description that
// the same server publishes at /openapi.json.

// A description is the published OpenAPI document, prepared for validation.
type description struct {
	doc      map[string]any
	paths    []describedPath
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema // by their JSON pointer
}

type describedPath struct {
	path string // the path in the document
	at   *regexp.Regexp
}

// descriptions are created once for each kind of deployment.
var descriptions sync.Map // of func() (*description, error), by the options that matter

func describe(h http.Handler, o options) (*description, error) {
	key := fmt.Sprint(o.PublicURL, o.BasePath, o.Front != nil, o.Front != nil && o.Front.Upstream != nil, o.Registrations != nil)
	f, _ := descriptions.LoadOrStore(key, sync.OnceValues(func() (*description, error) {
		r := httptest.NewRequest(http.MethodGet, o.BasePath+"/openapi.json", nil)
		r.TLS, r.RemoteAddr = &tls.ConnectionState{}, "127.0.0.1:1" // the tests' searches of the log expect addresses
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return parseDescription(w.Body.Bytes(), o.PublicURL)
	}))
	return f.(func() (*description, error))()
}

func parseDescription(text []byte, origin string) (*description, error) {
	d := &description{compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := json.Unmarshal(text, &d.doc); err != nil {
		return nil, err
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = d.compiler.AddResource("openapi.json", resource)
	}
	if err != nil {
		return nil, err
	}
	for path, item := range object(d.doc, "paths") {
		servers, own := item.(map[string]any)["servers"].([]any)
		if !own {
			servers = d.doc["servers"].([]any)
		}
		for _, s := range servers {
			at := regexp.QuoteMeta(strings.TrimPrefix(s.(map[string]any)["url"].(string), origin) + path)
			at = strings.ReplaceAll(at, `\{rest\}`, ".*")
			at = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(at, "[^/]+")
			d.paths = append(d.paths, describedPath{path, regexp.MustCompile("^" + at + "$")})
		}
	}
	return d, nil
}

// object returns a nested object, or an empty one if it is missing.
func object(v any, path ...string) map[string]any {
	m, _ := v.(map[string]any)
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// resolve follows a $ref, and returns the target and its location.
func (d *description) resolve(v any, where []string) (map[string]any, []string) {
	if ref, ok := object(v)["$ref"].(string); ok {
		where = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		return object(d.doc, where...), where
	}
	return object(v), where
}

// check returns how a response departs from the description.
func (d *description) check(r *http.Request, status int, h http.Header, body []byte) error {
	i := slices.IndexFunc(d.paths, func(p describedPath) bool { return p.at.MatchString(r.URL.EscapedPath()) })
	if i < 0 {
		if notPath := !strings.HasPrefix(r.URL.Path, "/"); notPath && status == http.StatusBadRequest {
			return nil // the description omits OPTIONS and CONNECT
		}
		// The redirect of a browser at the server's address leads to a page that is
		// described.
		sent := strings.Contains(r.Header.Get("Accept"), "text/html") && status == http.StatusSeeOther && strings.HasSuffix(h.Get("Location"), "/account/connections")
		if status != http.StatusNotFound && !sent {
			return fmt.Errorf("an undescribed path is answered %d", status)
		}
		return nil
	}
	path := d.paths[i].path
	item := object(d.doc, "paths", path)
	method := strings.ToLower(r.Method)
	op := object(item, method)
	if get := object(item, "get"); op == nil && get["x-any-method"] != nil || method == "head" {
		op, method = get, "get"
	}
	if op == nil {
		preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
		if status != http.StatusMethodNotAllowed && !(preflight && status == http.StatusNoContent) {
			return fmt.Errorf("an undescribed method is answered %d", status)
		}
		return nil
	}
	answer, where := d.resolve(object(op, "responses")[fmt.Sprint(status)], []string{"paths", path, method, "responses", fmt.Sprint(status)})
	if answer == nil {
		return fmt.Errorf("status %d is not described", status)
	}
	for name, header := range object(answer, "headers") {
		header, at := d.resolve(header, append(slices.Clone(where), "headers", name))
		value := h.Get(name)
		if value == "" {
			if header["required"] == true {
				return fmt.Errorf("%d: header %s is missing", status, name)
			}
			continue
		}
		if err := d.validate(append(at, "schema"), value); err != nil {
			return fmt.Errorf("%d: header %s is %q: %w", status, name, value, err)
		}
	}
	if len(body) == 0 || r.Method == http.MethodHead {
		return nil
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%d: Content-Type %q: %w", status, h.Get("Content-Type"), err)
	}
	content := object(answer, "content")
	if content["*/*"] != nil {
		return nil
	}
	if content[media] == nil {
		return fmt.Errorf("%d: %s is not described", status, media)
	}
	var v any = string(body)
	if strings.HasSuffix(media, "json") {
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(body)); err != nil {
			return fmt.Errorf("%d: %w", status, err)
		}
	}
	if err := d.validate(append(where, "content", media, "schema"), v); err != nil {
		return fmt.Errorf("%d: %w\n%s", status, err, body)
	}
	return nil
}

// validate validates a value against the schema at a location.
func (d *description) validate(where []string, v any) error {
	pointer := ""
	for _, name := range where {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	schema := d.schemas[pointer]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile("openapi.json#" + pointer); err != nil {
			return err
		}
		d.schemas[pointer] = schema
	}
	return schema.Validate(v)
}

// often limits how many responses of one kind are validated in a deployment; more would
// only repeat that.
const often = 5

// checkAnswers validates the responses of h until the end of the test.
func checkAnswers(t *testing.T, h http.Handler, o options) http.Handler {
	t.Helper()
	d, err := describe(h, o)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var faults []string
	seen := map[string]int{}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range faults {
			t.Error("the answer is not as /openapi.json says: " + f)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(rec, r)
		kind := fmt.Sprint(r.Method, r.URL.Path, rec.status)
		mu.Lock()
		defer mu.Unlock()
		if seen[kind]++; seen[kind] > often {
			return
		}
		if err := d.check(r, rec.status, rec.Header(), rec.body); err != nil {
			faults = append(faults, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err))
		}
	})
}

// A recorder keeps a copy of the response.
type recorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return r.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// A test of the validation itself: it finds each kind of departure.
func TestADepartureFromTheDescriptionIsFound(t *testing.T) {
	d := start(t)
	o := options{Options: server.Options{Site: server.Site{PublicURL: publicURL}}}
	about, err := describe(newServer(d.issuer, &o, slog.New(slog.DiscardHandler)).Handler(), o)
	if err != nil {
		t.Fatal(err)
	}
	good := http.Header{
		"X-Request-Id": {"0123456789abcdef"}, "Cache-Control": {"no-store"}, "Pragma": {"no-cache"}, "Content-Type": {"application/json"},
	}
	const pair = `{"scope":"a","expires_in":300,"token_type":"Bearer","refresh_token":"mintage_rt_x","access_token":"y"}`
	for name, c := range map[string]struct {
		method, path string
		status       int
		header       [2]string
		body, want   string
	}{
		"good":                {"POST", "/oauth2/access_token", 200, [2]string{}, pair, ""},
		"good, another path":  {"POST", "/oauth2/realms/root/realms/api/access_token", 200, [2]string{}, pair, ""},
		"good error":          {"POST", "/oauth2/access_token", 400, [2]string{}, `{"error":"invalid_grant","error_description":"x"}`, ""},
		"status":              {"POST", "/oauth2/access_token", 202, [2]string{}, pair, "status 202 is not described"},
		"header missing":      {"POST", "/oauth2/access_token", 200, [2]string{"Cache-Control", ""}, pair, "header Cache-Control is missing"},
		"header wrong":        {"POST", "/oauth2/access_token", 200, [2]string{"Cache-Control", "no-cache"}, pair, "header Cache-Control is"},
		"media type":          {"POST", "/oauth2/access_token", 200, [2]string{"Content-Type", "text/plain"}, pair, "text/plain is not described"},
		"member missing":      {"POST", "/oauth2/access_token", 200, [2]string{}, `{"scope":"a"}`, "jsonschema"},
		"member too many":     {"POST", "/oauth2/access_token", 200, [2]string{}, strings.Replace(pair, "{", `{"device_secret":"z",`, 1), "jsonschema"},
		"error that is no":    {"POST", "/oauth2/access_token", 400, [2]string{}, `{"error":"bad","error_description":"x"}`, "jsonschema"},
		"method":              {"PUT", "/oauth2/access_token", 200, [2]string{}, pair, "an undescribed method"},
		"path":                {"POST", "/oauth2/token", 200, [2]string{}, pair, "an undescribed path"},
		"path that is absent": {"POST", "/oauth2/token", 404, [2]string{}, "", ""},
	} {
		header := good.Clone()
		if c.header[0] != "" {
			header.Set(c.header[0], c.header[1])
		}
		err := about.check(httptest.NewRequest(c.method, c.path, nil), c.status, header, []byte(c.body))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
