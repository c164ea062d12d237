package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
)

// An explainPage asks for the text to explain. The browser sends the text in a body,
// because it may be a secret, and no page shows it again.
type explainPage struct{ Empty bool }

func (c *Console) explainForm(context.Context, *request) (reply, error) {
	return reply{page: explainPage{}}, nil
}

// An explainedPage shows an explanation.
type explainedPage struct {
	adminapi.Explanation
	Rows    []recordRow // audit records, if the text names a request
	OfGrant bool        // the page of a grant
	view
}

// Origin says whether the realm issued the text, "" if that is unknown.
func (p explainedPage) Origin() string {
	switch {
	case p.Authentic == nil:
		return ""
	case *p.Authentic:
		return "authentic"
	}
	return "not authentic"
}

// explain explains the text of the form. It redirects to the page of a grant, a client, a
// user or an API if the text names one.
func (c *Console) explain(ctx context.Context, r *request) (reply, error) {
	text := strings.TrimSpace(r.PostFormValue("text"))
	if text == "" {
		return reply{status: http.StatusUnprocessableEntity, page: explainPage{Empty: true}}, nil
	}
	p := explainedPage{view: r.view(r.mintage("explain"))}
	in := adminapi.ExplainRequest{Text: text, Subject: strings.TrimSpace(r.PostFormValue("subject")), Recent: true}
	err := c.post(ctx, r, in, &p.Explanation, "explain")
	if err == nil && p.Request != nil && len(p.Request.Audit) == 0 { // not at the end of the audit log: read all of it
		in.Recent, p.Explanation = false, adminapi.Explanation{}
		err = c.post(ctx, r, in, &p.Explanation, "explain")
	}
	if err != nil {
		return reply{}, err
	}
	switch {
	case p.Kind == "grant" && p.Grant != nil:
		return reply{to: "/grants/" + url.PathEscape(p.Grant.ID)}, nil
	case p.Kind == "unknown":
		if to, err := c.find(ctx, r, text); err != nil || to != "" {
			return reply{to: to}, err
		}
	}
	if p.Request != nil {
		p.Rows = rows(p.Request.Audit)
	}
	return reply{page: p}, nil
}

// maxName bounds the texts that find looks up. No id or name is longer.
const maxName = 255

// find returns the page of the client, user or API with this id or name, "" if there is
// none.
func (c *Console) find(ctx context.Context, r *request, text string) (to string, err error) {
	if len(text) > maxName {
		return "", nil
	}
	for _, noun := range []string{"clients", "users", "apis"} {
		var problem *problem
		switch err := c.get(ctx, r, nil, nil, noun, text); {
		case err == nil:
			return "/" + noun + "/" + url.PathEscape(text), nil
		case !errors.As(err, &problem) || problem.Status != http.StatusNotFound && problem.Status != http.StatusUnprocessableEntity:
			return "", err
		}
	}
	return "", nil
}
