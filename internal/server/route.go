package server

import (
	"context"
	"maps"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// Mount sets the routes.
func (s *Server) Mount(routes ...Route) {
	s.routes = routes
	s.patterns = map[string]Route{}
	realm := strings.Trim(s.Realm, "/")
	var person http.Handler
	for _, rt := range routes {
		rt.allow, rt.realm = strings.Join(rt.Methods, ", "), s.Realm
		for _, p := range rt.Paths {
			switch {
			case p == "/":
				person = s.endpoint(rt)
			case p[0] == '/':
				s.patterns[p] = rt
			default:
				below := s.BasePath + "/oauth2/"
				s.patterns[below+realm+"/"+p], s.patterns[below+"realms/root/realms/"+realm+"/"+p] = rt, rt
				short := rt
				if rt.NeedsRealm {
					short.realm = ""
				}
				s.patterns[below+p] = short
			}
		}
	}
	mux := http.NewServeMux()
	whole := map[string]http.Handler{}    // by path
	anything := map[string]http.Handler{} // by prefix
	for pattern, rt := range s.patterns {
		h := s.endpoint(rt)
		mux.Handle(pattern, h)
		if !strings.HasSuffix(pattern, "/") && !strings.Contains(pattern, "{") {
			whole[pattern] = h
		}
		if prefix, ok := strings.CutSuffix(pattern, "{rest...}"); ok {
			anything[prefix] = h
		}
	}
	refuse := func(err error) http.Handler {
		return s.endpoint(Route{Name: "request", Unadmitted: true, Handle: func(context.Context, *Request) (Answer, Report, error) { return Answer{}, Report{}, err }})
	}
	elsewhere := refuse(oauth.ErrNotFound)
	if program := elsewhere; person != nil {
		elsewhere = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if wantsPage(r) {
				person.ServeHTTP(w, r)
			} else {
				program.ServeHTTP(w, r)
			}
		})
	}
	mux.Handle("/", elsewhere)
	s.handler = exactPaths(mux, whole, anything, elsewhere, refuse(oauth.ErrTargetForm))
}

// Routes returns the mounted routes.
func (s *Server) Routes() []Route { return s.routes }

// Patterns returns the mounted routes by their whole path.
func (s *Server) Patterns() map[string]Route { return s.patterns }

// Handler serves the mounted routes.
func (s *Server) Handler() http.Handler { return s.handler }

// exactPaths answers notFound for every spelling of a path but the registered one. The
// mux would redirect some of them, and clients would send their secrets twice. The rest of
// a path below a prefix in anything is another server's, so any spelling passes. Paths
// without a variable part are looked up in whole, because the mux takes a microsecond.
func exactPaths(mux *http.ServeMux, whole, anything map[string]http.Handler, notFound, notPath http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := whole[r.URL.Path]; h != nil && r.URL.RawPath == "" {
			h.ServeHTTP(w, r)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/") {
			notPath.ServeHTTP(w, r) // OPTIONS * or CONNECT (RFC 9112 section 3.2)
			return
		}
		if r.URL.RawPath == "" && path.Clean(r.URL.Path) == r.URL.Path {
			mux.ServeHTTP(w, r)
			return
		}
		for prefix, h := range anything {
			if rest, below := strings.CutPrefix(r.URL.Path, prefix); below {
				r.SetPathValue("rest", rest)
				h.ServeHTTP(w, r)
				return
			}
		}
		notFound.ServeHTTP(w, r)
	})
}

// javaAccept is the prefix of the Accept header that Java's HttpURLConnection sends
// by default.
const javaAccept = "text/html, image/gif, image/jpeg, *"

// wantsPage reports whether the Accept header names HTML. A browser names it if it shows
// the answer as a page; among OAuth clients, only plain Java does.
func wantsPage(r *http.Request) bool {
	accept := strings.Join(r.Header["Accept"], ",")
	if strings.HasPrefix(accept, javaAccept) {
		return false
	}
	for accepted := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(accepted, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/html") {
			return true
		}
	}
	return false
}

// endpoint wraps a route's handler with what every request has: an id, a deadline, the
// answer, the log line, and recovery from panics.
func (s *Server) endpoint(rt Route) http.Handler {
	rt.meter = s.Metrics.Route(rt.Name)
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		began := time.Now()
		r := &Request{Request: hr, Route: &rt, ID: RequestID(), Address: s.address(hr), server: s}
		r.ids[0] = r.ID
		if !s.maybeUndeclaredProxy(r.Address) {
			r.Counted = r.Address
		}
		s.noteProbe(r)
		ctx, span := s.Tracer.Request(s.deadlines.of(began), hr.Header, hr.Method, rt.Name)
		r.trace = span.ID()
		o := &r.outcome
		var a Answer
		a, o.Report, o.Err = s.safely(s.originOf(ctx, r), r)
		o.Status = s.respond(w, r, a)
		s.record(r, time.Since(began))
		s.watch(r)
		span.End(o.Status, knownGrantType(o.GrantType), r.ID)
		s.audit(r)
	})
}

func (s *Server) safely(ctx context.Context, r *Request) (a Answer, rec Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
		if r.slot {
			s.Queue.Leave(r.class, r.network)
		}
	}()
	if s.preflight(r) {
		return Answer{Status: http.StatusNoContent}, rec, nil
	}
	if !r.Route.Unadmitted {
		if err := r.admit(); err != nil {
			return a, rec, err
		}
	}
	return r.Route.Handle(ctx, r)
}

// respond writes the answer or the error of the request's outcome, and returns the
// status.
func (s *Server) respond(w http.ResponseWriter, r *Request, a Answer) int {
	h := w.Header()
	h["Content-Type"] = headerJSON
	h["Cache-Control"] = headerNoStore
	h["Pragma"] = headerNoCache
	h["X-Content-Type-Options"] = headerNosniff
	h["X-Request-Id"] = r.ids[:]
	if r.nonce != "" {
		h["Dpop-Nonce"] = []string{r.nonce}
	}
	if s.strict && s.encrypted(r.Request) {
		h["Strict-Transport-Security"] = headerStrict
	}
	s.cors(h, r)
	maps.Copy(h, r.Route.Headers)
	if len(r.TransferEncoding) > 0 {
		// The request may also have a Content-Length, which net/http hides: a proxy and this
		// server could disagree about where it ends (RFC 9112 section 6.1). Close the
		// connection, so that nothing after it is read as a request.
		h["Connection"] = headerClose
	}
	if err := r.outcome.Err; err != nil {
		write := s.oauthError
		if r.Route.Error != nil {
			write = r.Route.Error
		}
		cookies := a.Cookies
		a = write(h, r, r.outcome.Report, err)
		a.Cookies = cookies
	}
	for _, c := range a.Cookies {
		h.Add("Set-Cookie", c)
	}
	maps.Copy(h, a.Header)
	switch a.Status {
	case 0:
		a.Status = http.StatusOK
	case http.StatusNoContent:
		delete(h, "Content-Type") // there is no body
	}
	if len(a.Body) > 2048 {
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))} // net/http sets it for shorter bodies only
	}
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead && len(a.Body) > 0 {
		w.Write(a.Body)
	}
	return a.Status
}
