package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
)

//go:embed templates/*.html
var sources embed.FS

//go:embed static/console.css
var consoleStyle []byte

//go:embed static/grow.js
var script []byte

//go:embed texts/ja.json
var japanese []byte

// style is the style sheet of all pages, followed by that of the console. File names have
// a digest of the content, so that browsers can cache the files.
var (
	style      = append(pages.StyleSheet(), consoleStyle...)
	styleName  = "style-" + digest(style) + ".css"
	scriptName = "grow-" + digest(script) + ".js"
)

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// locales maps a language to the translations of the English texts in the templates. They
// are parsed for the first page, because commands show none.
var locales = sync.OnceValue(func() map[string]map[string]string {
	var ja map[string]string
	if err := json.Unmarshal(japanese, &ja); err != nil {
		panic(err) // it is part of the program
	}
	return map[string]map[string]string{"en": {}, "ja": ja}
})

// localeOf returns the first language of Accept-Language that the console has.
func localeOf(r *http.Request) string {
	for member := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(member), ";")
		primary, _, _ := strings.Cut(strings.ToLower(tag), "-")
		if _, ok := locales()[primary]; ok {
			return primary
		}
	}
	return "en"
}

// templateRequest holds the request for which templates are executed, one request at a
// time: template functions read its language and realm. Executing a page takes about a
// millisecond.
var templateRequest struct {
	sync.Mutex
	*request
}

// templates are parsed for the first page. Commands show no page, and need not parse them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"t":       func(text string, args ...any) string { return templateRequest.say(text, args...) },
		"at":      func(path string, segments ...string) string { return templateRequest.at(path, segments...) },
		"mintage": func(verb string) string { return templateRequest.mintage(verb) },
		"hinted":  hinted,
		"when":    when, "whenExactly": pages.Time, "shown": shown, "rows": rows, "more": func() template.HTML { return more }, "script": func() string { return "/assets/" + scriptName }, "asset": func() string { return "/assets/" + styleName },
	}).ParseFS(sources, "templates/*.html"))
})

// hinted returns the attributes of a field whose hint has the id NAME-hint: its name, and
// what screen readers say of it (WCAG 2.2, 1.3.1 and 3.3.1). A wrong field is described by
// the error of its form too.
func hinted(name string, wrong bool) template.HTMLAttr {
	described, invalid := name+"-hint", ""
	if wrong {
		described, invalid = "error "+described, ` aria-invalid="true"`
	}
	return template.HTMLAttr(fmt.Sprintf(`aria-describedby="%s"%s id="%s" name="%s"`, described, invalid, name, name))
}

// execute executes a template.
func (r *request) execute(to *bytes.Buffer, name string, data any) error {
	templateRequest.Lock()
	defer templateRequest.Unlock()
	templateRequest.request = r
	return templates().ExecuteTemplate(to, name, data)
}

// say returns a text in the language of r.
func (r *request) say(text string, args ...any) string {
	if own, ok := locales()[r.locale][text]; ok {
		text = own
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

func when(t *time.Time) template.HTML {
	if t == nil {
		return pages.Time(time.Time{})
	}
	return pages.Time(*t)
}

// shown makes control and format characters of untrusted text visible, which could change
// the order or the meaning of the text around them.
func shown(text string) string {
	var b strings.Builder
	for _, c := range text {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c) {
			fmt.Fprintf(&b, "\\u%04x", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// A recordRow is a record of the audit log as tables show it.
type recordRow struct {
	audit.Entry
	Who string // the actor, or else the client
}

// rows returns the records for a table.
func rows(list []audit.Entry) (rows []recordRow) {
	for _, e := range list {
		rows = append(rows, recordRow{e, cmp.Or(e.Actor, e.ClientID)})
	}
	return rows
}

// more marks the place in a page where a stream appends its items.
const more template.HTML = "<!-- more -->"

// A view holds the fields that most pages share.
type view struct {
	Admin   bool   // the operator may make changes
	Done    string // a text of the template
	Command string // the command that does the same
}

func (r *request) view(command string) view {
	return view{r.admin(), r.URL.Query().Get("done"), command}
}

// holds drops what was done, if it was done to the state and the state is another one now:
// the back button shows the page again, and a link can lead to it.
func (v *view) holds(state string) {
	if (v.Done == "enabled" || v.Done == "disabled") && v.Done != state {
		v.Done = ""
	}
}

// A frame is what the layout shows around a page.
type frame struct {
	Locale  string
	Service string
	Path    string
	Who     string
	Role    string
	Realm   string // the realm of the page; "": the first one
	All     bool   // the operator may see all realms, and the deployment
	Name    string // of the template
}

// write writes a page.
func (c *Console) write(w http.ResponseWriter, r *request, a reply) {
	whole, err := c.render(r, a.page)
	if err != nil {
		c.broken(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if a.refresh != "" {
		w.Header().Set("Refresh", "0; url="+a.refresh)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(whole)
}

// broken logs that a page cannot be rendered, and answers with status 500.
func (c *Console) broken(w http.ResponseWriter, r *request, err error) {
	c.Log.Error("cannot render a page of the console", "request_id", r.id, "error", err)
	http.Error(w, "internal error, request "+r.id, http.StatusInternalServerError)
}

func (c *Console) frameOf(r *request, page any) frame {
	f := frame{Locale: r.locale, Service: c.Service, Path: strings.TrimPrefix(r.URL.Path, r.at("")), Name: strings.TrimSuffix(reflect.TypeOf(page).Name(), "Page")}
	if r.who != nil {
		f.Who, f.Role, f.Realm, f.All = r.who.Name, r.who.Role, r.realm(), r.all()
	}
	return f
}

// render returns a page within its frame.
func (c *Console) render(r *request, page any) ([]byte, error) {
	var content, whole bytes.Buffer
	f := c.frameOf(r, page)
	if err := r.execute(&content, f.Name, page); err != nil {
		return nil, err
	}
	err := r.execute(&whole, "layout", struct {
		frame
		Content template.HTML
		Title   template.HTML
		Wrong   bool // the form was refused
	}{f, template.HTML(content.String()), titleOf(content.String()), strings.Contains(content.String(), ` id="error"`)})
	return whole.Bytes(), err
}

// titleOf returns the heading of a page, which templates have escaped.
func titleOf(content string) template.HTML {
	_, rest, _ := strings.Cut(content, "<h1>")
	text, _, _ := strings.Cut(rest, "</h1>")
	for _, tag := range []string{"<bdi>", "</bdi>", "<code>", "</code>"} {
		text = strings.ReplaceAll(text, tag, "")
	}
	return template.HTML(text)
}

// isKind reports whether an error is a problem of the admin API with this type.
func isKind(err error, kind string) bool {
	var p *problem
	return errors.As(err, &p) && p.Type == "urn:mintage:problem:"+kind
}

// Current returns the attribute for the menu entry of path: it marks the entry if its
// page, or one below it, is shown.
func (f frame) Current(path string) template.HTMLAttr {
	switch {
	case f.Path == path:
		return `aria-current="page"`
	case path != "/" && strings.HasPrefix(f.Path, path+"/"):
		return `aria-current="true"`
	}
	return ""
}

// Errors that have a page of their own.
var (
	errNotFound = errors.New("there is no such page")
	errForged   = errors.New("the form was not sent by a page of the console")
	errTooLarge = errors.New("the form has more than 64 KiB")
)

// A failurePage says what went wrong, and what to do.
type failurePage struct {
	Kind      string // a text of the template
	Detail    string // in English
	Advice    string // in English
	RequestID string
}

// failed returns the page about an error.
func (c *Console) failed(r *request, err error) reply {
	p := failurePage{RequestID: r.id}
	status := http.StatusInternalServerError
	var refused *problem
	switch {
	case errors.Is(err, errNotFound):
		status, p.Kind = http.StatusNotFound, "missing"
	case errors.Is(err, errForged):
		status, p.Kind = http.StatusForbidden, "forged"
	case errors.Is(err, errTooLarge):
		status, p.Kind = http.StatusRequestEntityTooLarge, "large"
	case errors.As(err, &refused):
		status, p.Detail, p.Advice = refused.Status, strings.TrimSpace(refused.Field+" "+refused.Detail), refused.Advice
		p.Kind = map[int]string{http.StatusForbidden: "role", http.StatusNotFound: "missing", http.StatusConflict: "conflict", http.StatusPreconditionFailed: "conflict",
			http.StatusBadRequest: "refused", http.StatusUnprocessableEntity: "refused",
			http.StatusTooManyRequests: "busy", http.StatusServiceUnavailable: "unavailable"}[status]
		if isKind(err, "realm") {
			p.Kind = "realm"
		}
	case errors.Is(err, store.ErrUnavailable):
		status, p.Kind = http.StatusServiceUnavailable, "unavailable"
	}
	p.Kind = cmp.Or(p.Kind, "internal")
	if status >= http.StatusInternalServerError && r.outer.Err() == nil { // the browser is still there
		c.Log.Error("a page of the console failed", "request_id", r.id, "error", err)
	}
	return reply{status: status, page: p}
}
