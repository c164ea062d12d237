package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var methods = []string{"get", "head", "post", "put", "patch", "delete", "options", "trace"}

// A pageWriter writes http-api.md.
type pageWriter struct {
	strings.Builder
	api *value
}

func (w *pageWriter) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// write returns the text of http-api.md.
func write(api *value) string {
	w := &pageWriter{api: api}
	w.line("# HTTP API\n\n<!-- Generated from openapi.yaml by: go run ./internal/server/apidoc -->\n")
	w.line("Every address of a server. The machine-readable form is [openapi.yaml](openapi.yaml), in OpenAPI 3.1; a server has the part of its public listener,")
	w.line("with its own addresses, at `{base}/openapi.json`. For generators and other programs that do not read YAML's aliases and merge keys,")
	w.line("[openapi.json](../../internal/server/resource/openapi.json) is the whole without them.\n")
	w.line("%s\n", prose(api.at("info", "description").text()))
	w.line("| below | |\n|---|---|")
	for _, s := range api.at("servers").list {
		w.line("| `%s` | %s |", s.at("url").text(), s.at("description").text())
	}
	for _, tag := range api.at("tags").list {
		name := tag.at("name").text()
		w.line("\n## %s\n\n%s\n", name, prose(tag.at("description").text()))
		w.table(name)
		w.each(name, w.operation)
	}
	w.shared()
	w.schemas()
	return w.String()
}

// each calls f for each operation of a tag.
func (w *pageWriter) each(tag string, f func(method, path string, item, op *value)) {
	w.api.at("paths").each(func(path string, item *value) {
		for _, method := range methods {
			if op := item.at(method); op != nil && op.at("tags").list[0].text() == tag {
				f(method, path, item, op)
			}
		}
	})
}

func (w *pageWriter) table(tag string) {
	w.line("| | | answers |\n|---|---|---|")
	w.each(tag, func(method, path string, item, op *value) {
		if method == "head" {
			return // the row of GET names it
		}
		verb := strings.ToUpper(method)
		switch {
		case op.at("x-any-method") != nil:
			verb = "any"
		case item.at("head") != nil:
			verb += ", HEAD"
		}
		w.line("| %s `%s` | %s | %s |", verb, path, prose(op.at("summary").text()), strings.Join(slices.Sorted(slices.Values(op.at("responses").names)), " "))
	})
}

// operation writes the section of an operation, unless it is a second address of another
// one: that is only in the table.
func (w *pageWriter) operation(method, path string, item, op *value) {
	id := op.at("operationId").text()
	if method == "head" || strings.Contains(id, "OtherAddress") || strings.HasPrefix(id, "metadataBy") || id == "verifyBelow" {
		return
	}
	w.line("\n### %s %s\n\n%s.%s\n", strings.ToUpper(method), path, prose(op.at("summary").text()), space(prose(op.at("description").text())))
	if servers := item.at("servers"); servers != nil && op.at("tags").list[0].text() == "Documents" {
		w.line("Below `%s{base}`.\n", servers.list[0].at("url").text())
	}
	w.parameters(item, op)
	if media := op.at("requestBody", "content"); media != nil {
		for _, name := range media.names {
			w.line("Body, `%s`: %s\n", name, w.shape(media.at(name, "schema")))
		}
	}
	w.answers(op.at("responses"))
}

// answers writes a table of the answers that only this operation has, and links to
// the shared ones.
func (w *pageWriter) answers(responses *value) {
	var others []string
	header := "| status | | headers | body |\n|---|---|---|---|"
	responses.each(func(status string, r *value) {
		if name, shared := strings.CutPrefix(r.at("$ref").text(), "#/components/responses/"); shared {
			others = append(others, fmt.Sprintf("[%s](#%s)", status, strings.ToLower(name)))
			return
		}
		if header != "" {
			w.line("%s", header)
			header = ""
		}
		w.line("| %s | %s | %s | %s |", status, prose(r.at("description").text()), w.headers(r), w.bodies(r))
	})
	slices.Sort(others)
	switch {
	case others == nil:
	case header == "":
		w.line("\nOther answers: %s.", strings.Join(others, ", "))
	default:
		w.line("Answers: %s.", strings.Join(others, ", "))
	}
}

func (w *pageWriter) headers(r *value) string {
	var list []string
	for _, name := range r.at("headers").keys() {
		if name != "X-Request-Id" {
			list = append(list, "`"+name+"`")
		}
	}
	return strings.Join(list, ", ")
}

func (w *pageWriter) bodies(r *value) string {
	var list []string
	r.at("content").each(func(media string, m *value) { list = append(list, "`"+media+"` "+w.shape(m.at("schema"))) })
	return strings.Join(list, "<br>")
}

// shared writes the answers that many operations have.
func (w *pageWriter) shared() {
	w.line("\n## Shared answers\n\nEach has `X-Request-Id`.\n\n| | | headers | body |\n|---|---|---|---|")
	w.api.at("components", "responses").each(func(name string, r *value) {
		w.line("| <a id=%q></a>%s | %s | %s | %s |", strings.ToLower(name), name, prose(r.at("description").text()), w.headers(r), w.bodies(r))
	})
}

// keys returns the names of an object's members; v may be nil.
func (v *value) keys() []string {
	if v == nil {
		return nil
	}
	return v.names
}

func (w *pageWriter) parameters(item, op *value) {
	var list []*value
	for _, from := range []*value{item.at("parameters"), op.at("parameters")} {
		if from != nil {
			list = append(list, from.list...)
		}
	}
	if len(list) == 0 {
		return
	}
	w.line("| parameter | in | |\n|---|---|---|")
	for _, p := range list {
		p = w.resolve(p)
		must := ""
		if p.at("required") != nil && p.at("in").text() != "path" {
			must = "required. "
		}
		w.line("| `%s` | %s | %s%s |", p.at("name").text(), p.at("in").text(), must, w.meaning(p.at("description"), p.at("schema")))
	}
	w.line("")
}

// resolve follows a reference within the document.
func (w *pageWriter) resolve(v *value) *value {
	if ref := v.at("$ref").text(); ref != "" {
		return w.api.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return v
}

// shape names a schema, with a link if it has a name of its own.
func (w *pageWriter) shape(s *value) string {
	if name, ok := strings.CutPrefix(s.at("$ref").text(), "#/components/schemas/"); ok {
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if one := s.at("oneOf"); one != nil {
		var names []string
		for _, x := range one.list {
			names = append(names, w.shape(x))
		}
		return strings.Join(names, " or ")
	}
	return ""
}

// schemas writes a table for each object, and a paragraph for every other schema.
func (w *pageWriter) schemas() {
	w.line("\n## Objects\n\nMembers that are not marked may be absent.")
	w.api.at("components", "schemas").each(func(name string, s *value) {
		if properties := s.at("properties"); properties != nil {
			w.line("\n### %s\n", name)
			if d := s.at("description").text(); d != "" {
				w.line("%s\n", prose(d))
			}
			w.line("| member | | |\n|---|---|---|")
			properties.each(func(member string, p *value) {
				full := w.resolve(p)
				must := ""
				if required := s.at("required"); required != nil && slices.ContainsFunc(required.list, func(v *value) bool { return v.text() == member }) {
					must = "always"
				}
				w.line("| `%s` | %s | %s |", member, must, w.meaning(full.at("description"), full))
			})
			return
		}
		w.line("\n### %s\n\n%s", name, w.meaning(s.at("description"), s))
	})
}

// meaning returns a description, and behind it the values that a schema allows.
func (w *pageWriter) meaning(description, schema *value) string {
	text, bounds := prose(description.text()), w.bounds(schema)
	if text != "" && bounds != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.TrimSpace(text + " " + bounds)
}

// bounds describes in few words which values a schema allows.
func (w *pageWriter) bounds(s *value) string {
	var parts []string
	if s.at("const") != nil {
		return "`" + strings.Trim(s.at("const").scalar, `"`) + "`"
	}
	if enum := s.at("enum"); enum != nil {
		for _, v := range enum.list {
			parts = append(parts, "`"+strings.Trim(v.scalar, `"`)+"`")
		}
		return "One of " + strings.Join(parts, ", ") + "."
	}
	if t := s.at("type"); t != nil && t.text() != "string" {
		kind := t.text()
		if t.list != nil {
			kind = t.list[0].text() + " or " + t.list[1].text()
		}
		if s.at("items") != nil && w.resolve(s.at("items")).at("type").text() == "string" {
			kind += " of strings"
		}
		parts = append(parts, strings.ToUpper(kind[:1])+kind[1:]+".")
	}
	if s.at("format") != nil {
		parts = append(parts, "RFC 3339.")
	}
	if p := s.at("pattern").text(); p != "" && !strings.Contains(p, "BEGIN") {
		parts = append(parts, "`"+strings.ReplaceAll(p, "|", `\|`)+"`.")
	}
	if most := s.at("maxLength"); most != nil {
		parts = append(parts, "At most "+most.scalar+" bytes.")
	}
	return strings.Join(parts, " ")
}

var pageName = regexp.MustCompile(`\b([a-z-]+\.md)\b`)

// prose turns the names of pages into links.
func prose(text string) string { return pageName.ReplaceAllString(text, "[$1]($1)") }

func space(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}
