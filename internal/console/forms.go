package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/operator"
)

// A form holds the fields that the pages with a form share.
type form struct {
	Once    string // single-use id, spent when the form is sent
	Problem string // why the form was refused, in English; ""
	Advice  string
	Field   string // which field is wrong; ""
	Shown   bool   // only the command is wanted: nothing is saved
}

func newForm() form { return form{Once: operator.NewForm()} }

// sentForm returns a form for the response to a submitted form, with a new id.
func sentForm(r *request) form {
	return form{Once: operator.NewForm(), Shown: r.PostFormValue("show") != ""}
}

// refused reports whether the admin API has refused the content of the form, and puts its
// problem into f. It returns any other error.
func (f *form) refused(err error) (again bool, other error) {
	var p *problem
	if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusBadRequest && (p.Status != http.StatusConflict || p.Type != "urn:mintage:problem:taken") {
		return false, err
	}
	f.Problem, f.Advice, f.Field = p.Detail, p.Advice, p.Field
	return true, nil
}

// stale reports whether somebody else has changed the object since the form was opened
// (If-Match failed), and puts that problem into f. The caller then sets the current ETag.
func (f *form) stale(err error) bool {
	var p *problem
	if !errors.As(err, &p) || p.Status != http.StatusPreconditionFailed {
		return false
	}
	f.Problem, f.Advice = "somebody else has changed this since you opened the form", "The command at the end of the page shows what Save would change now"
	return true
}

// A repeatedPage reports that the browser has sent a form twice. The console does not know
// the result of the first time.
type repeatedPage struct{ List string }

// creates returns the route of a form that creates something. It accepts each form once
// (SpendForm), and links from the page about a repeated form to back. If shows is set, a
// form may request its command instead: then nothing is saved.
func (c *Console) creates(path, back string, shows bool, do handler) []route {
	return []route{{method: http.MethodPost, path: path, handle: func(ctx context.Context, r *request) (reply, error) {
		switch shown := sentForm(r).Shown; {
		case shown && !shows:
			return reply{}, errNotFound
		case !shown:
			err := operator.SpendForm(ctx, c.Store, r.PostFormValue("once"), c.now())
			switch {
			case errors.Is(err, operator.ErrRepeated):
				return reply{status: http.StatusConflict, page: repeatedPage{r.named(back)}}, nil
			case err != nil:
				return reply{}, err
			}
		}
		return do(ctx, r)
	}}}
}

// lines returns the lines of a text field that are not empty.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// A pager holds the addresses of the next and the previous page of a list (keyset
// pagination). Decoding a list sets Next to the key of the next page, from which pages
// makes the links.
type pager struct{ Next, Previous string }

// maxBack bounds the keys of earlier pages in a link. Going back beyond them leads to the
// first page.
const maxBack = 20

// pages returns the links of a page at path, where next is the key of the next page. The
// links keep the other parameters.
func (r *request) pages(path, next string) (p pager) {
	q := r.URL.Query()
	after, back := q.Get("after"), q["back"]
	q.Del("done")
	if next != "" {
		n := r.URL.Query()
		n.Del("done")
		n.Set("after", next)
		if n["back"] = append(back, after); len(n["back"]) > maxBack {
			n["back"] = n["back"][1:]
		}
		p.Next = path + "?" + n.Encode()
	}
	if after != "" {
		q.Del("after")
		q.Del("back")
		if n := len(back); n > 0 {
			setIf(q, "after", back[n-1])
			q["back"] = back[:n-1]
		}
		if p.Previous = path; len(q) > 0 {
			p.Previous += "?" + q.Encode()
		}
	}
	return p
}

// counted returns the number of grants that the submitted form showed, -1 if text is no
// number.
func counted(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// setIf sets a parameter, unless it is "".
func setIf(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
