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

// A form is what each page with a form that creates something has.
type form struct {
	Once    string // its id, which is spent by sending it
	Problem string // why it was refused, in English; ""
	Advice  string
	Field   string // which field is wrong; ""
	Shown   bool   // its command was asked for, and nothing is saved
}

func newForm() form { return form{Once: operator.NewForm()} }

// sentForm returns the form of the page that answers a sent one.
func sentForm(r *request) form {
	return form{Once: operator.NewForm(), Shown: r.PostFormValue("show") != ""}
}

// refused reports whether err is about what the form says, for another try, and returns
// any other error.
func (f *form) refused(err error) (again bool, other error) {
	var p *problem
	if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusBadRequest && (p.Status != http.StatusConflict || p.Type != "urn:mintage:problem:taken") {
		return false, err
	}
	f.Problem, f.Advice, f.Field = p.Detail, p.Advice, p.Field
	return true, nil
}

// stale returns the form for another try if somebody else has changed since it was opened
// what it is about. The page then needs the present ETag.
func (f *form) stale(err error) bool {
	var p *problem
	if !errors.As(err, &p) || p.Status != http.StatusPreconditionFailed {
		return false
	}
	f.Problem, f.Advice = "somebody else has changed this since you opened the form", "The command at the end of the page has what differs now: Save would change that"
	return true
}

// A repeatedPage says that a form was sent before: a browser has repeated it. What came of
// the first time is not known.
type repeatedPage struct{ List string }

// creates returns the page of a sent form that creates something: it counts once, unless it
// asks for its command alone, as it can if shows is set. Behind a form that was sent before,
// back leads to what the first one has made.
func (c *Console) creates(path, back string, shows bool, do handler) []route {
	return []route{{method: http.MethodPost, path: path, handle: func(ctx context.Context, r *request) (reply, error) {
		switch shown := sentForm(r).Shown; {
		case shown && !shows:
			return reply{}, errNotFound
		case !shown:
			err := r.session.SpendForm(ctx, c.Store, r.PostFormValue("once"))
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

// A pager leads through a list by the keys of its items (keyset pagination), also back. A
// page decodes the list and the key of its next page, of which pages makes the links.
type pager struct{ Next, Previous string }

// maxBack bounds how far back the links of a page lead; the first page is before that.
const maxBack = 20

// pages returns the links of a page of a list, whose other parameters stay.
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

// counted returns the number that a form says that it was asked about.
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
