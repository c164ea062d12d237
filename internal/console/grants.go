package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
)

// grantPages are the pages about grants, and about the sessions that have made them.
type grantPages struct{ *Console }

// A grantsPage lists the grants of a subject, of a client or of both, and the sessions of
// a subject.
type grantsPage struct {
	Subject, Client string
	Asked           bool
	Grants          []adminapi.Grant
	Sessions        []adminapi.Session
	More            string // address of the next page; ""
	Admin           bool
	EndAll          string // address of the question; "": there is nothing to end
	Done            string // a text of the template
	Command         string
}

const listSize = 50

func (c grantPages) grants(ctx context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	p := grantsPage{Subject: strings.TrimSpace(q.Get("subject")), Client: strings.TrimSpace(q.Get("client")), Admin: r.admin(), Done: q.Get("done"), Command: "mintage grant list --subject NAME"}
	if p.Subject == "" && p.Client == "" {
		return reply{page: p}, nil
	}
	p.Asked, p.Command = true, "mintage grant list"+ofWhom(p.Subject, p.Client)
	query := url.Values{"limit": {strconv.Itoa(listSize)}}
	setIf(query, "subject", p.Subject)
	setIf(query, "client_id", p.Client)
	setIf(query, "after", q.Get("after"))
	var answer struct {
		Grants []adminapi.Grant
		Next   string
	}
	if err := c.get(ctx, r, &answer, query, "grants"); err != nil {
		return reply{}, err
	}
	p.Grants = answer.Grants
	whom := url.Values{}
	setIf(whom, "subject", p.Subject)
	setIf(whom, "client", p.Client)
	if len(p.Grants) > 0 {
		p.EndAll = "/grants/end?" + whom.Encode()
	}
	if answer.Next != "" {
		whom.Set("after", answer.Next)
		p.More = "/grants?" + whom.Encode()
	}
	if p.Subject != "" && p.Client == "" {
		var sessions struct{ Sessions []adminapi.Session }
		if err := c.get(ctx, r, &sessions, url.Values{"subject": {p.Subject}}, "sessions"); err != nil {
			return reply{}, err
		}
		p.Sessions = sessions.Sessions
	}
	return reply{page: p}, nil
}

// setIf sets a parameter, unless it is "".
func setIf(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// filtered returns the query of a page of a list, and the flags of the command that
// lists the same from its beginning. "" stands for no filter.
func filtered(after, match, state string) (query url.Values, flags string) {
	query = url.Values{"limit": {strconv.Itoa(listSize)}}
	setIf(query, "match", match)
	setIf(query, "state", state)
	setIf(query, "after", after)
	if match != "" {
		flags += " --match " + quoteValue(match)
	}
	if state != "" {
		flags += " --state " + quoteValue(state)
	}
	return query, flags
}

// ofWhom returns the flags of a subject and a client.
func ofWhom(subject, client string) (flags string) {
	if subject != "" {
		flags += " --subject " + quoteValue(subject)
	}
	if client != "" {
		flags += " --client " + quoteValue(client)
	}
	return flags
}

// admin reports whether who looks may change something.
func (r *request) admin() bool { return r.who.Role == "admin" }

// grant shows a grant as it is explained.
func (c grantPages) grant(ctx context.Context, r *request) (reply, error) {
	id := r.PathValue("grant")
	p := explainedPage{OfGrant: true, Admin: r.admin(), Command: "mintage explain " + quote(id)}
	// An id that is none would be explained as something else.
	var g adminapi.Grant
	if err := c.get(ctx, r, &g, nil, "grants", id); err != nil {
		return reply{}, err
	}
	err := c.post(ctx, r, adminapi.ExplainRequest{Text: g.ID}, &p.Explanation, "explain")
	return reply{page: p}, err
}

// An endGrantPage asks whether a grant is to end.
type endGrantPage struct {
	adminapi.Grant
	Command string
}

func (c grantPages) askEndGrant(ctx context.Context, r *request) (reply, error) {
	p := endGrantPage{Command: "mintage grant revoke " + quote(r.PathValue("grant"))}
	err := c.get(ctx, r, &p.Grant, nil, "grants", r.PathValue("grant"))
	return reply{page: p}, err
}

func (c grantPages) endGrant(ctx context.Context, r *request) (reply, error) {
	var g adminapi.Grant
	if err := c.get(ctx, r, &g, nil, "grants", r.PathValue("grant")); err != nil {
		return reply{}, err
	}
	err := c.remove(ctx, r, "grants", g.ID)
	return reply{to: "/grants?" + url.Values{"subject": {g.Subject}, "done": {"grant"}}.Encode()}, err
}

// An endGrantsPage asks whether all that a subject, a client or both have is to end.
type endGrantsPage struct {
	Subject, Client string
	N               count
	More            bool // there are more than when it was asked
	Command         string
}

// maxCounted is how far grants are counted.
const maxCounted = 10000

// countGrants counts the active grants of a subject, a client or both.
func (c *Console) countGrants(ctx context.Context, r *request, subject, client string) (count, error) {
	query := url.Values{"limit": {strconv.Itoa(adminapi.MaxPage)}}
	setIf(query, "subject", subject)
	setIf(query, "client_id", client)
	n := count{Kind: "grants"}
	for read := 0; read < maxCounted; {
		var answer struct {
			Grants []adminapi.Grant
			Next   string
		}
		if err := c.get(ctx, r, &answer, query, "grants"); err != nil {
			return n, err
		}
		for _, g := range answer.Grants {
			if g.State == "active" {
				n.N++
			}
		}
		if read += len(answer.Grants); answer.Next == "" {
			return n, nil
		}
		query.Set("after", answer.Next)
	}
	n.More = true
	return n, nil
}

// grew reports whether there are more than a form says that it was asked about.
func (n count) grew(form string) bool { return n.N > counted(form) }

func (c grantPages) endGrantsQuestion(ctx context.Context, r *request) (p endGrantsPage, err error) {
	p.Subject, p.Client = r.FormValue("subject"), r.FormValue("client")
	if p.Subject == "" && p.Client == "" {
		return p, errNotFound
	}
	p.Command = "mintage grant revoke" + ofWhom(p.Subject, p.Client)
	p.N, err = c.countGrants(ctx, r, p.Subject, p.Client)
	return p, err
}

func (c grantPages) askEndGrants(ctx context.Context, r *request) (reply, error) {
	p, err := c.endGrantsQuestion(ctx, r)
	return reply{page: p}, err
}

func (c grantPages) endGrants(ctx context.Context, r *request) (reply, error) {
	p, err := c.endGrantsQuestion(ctx, r)
	if err != nil {
		return reply{}, err
	}
	if p.N.grew(r.PostFormValue("counted")) {
		p.More = true
		return reply{status: http.StatusConflict, page: p}, nil
	}
	if err := c.post(ctx, r, adminapi.CutoffRequest{Subject: p.Subject, ClientID: p.Client}, nil, "cutoffs"); err != nil {
		return reply{}, err
	}
	whom := url.Values{"done": {"grants"}}
	setIf(whom, "subject", p.Subject)
	setIf(whom, "client", p.Client)
	return reply{to: "/grants?" + whom.Encode()}, nil
}

// An endUserSessionPage asks whether a session of a subject is to end.
type endUserSessionPage struct {
	adminapi.Session
	Active  int // grants that it has made
	Command string
}

func (c grantPages) askEndUserSession(ctx context.Context, r *request) (reply, error) {
	subject, session := r.FormValue("subject"), r.FormValue("session")
	var sessions struct{ Sessions []adminapi.Session }
	if err := c.get(ctx, r, &sessions, url.Values{"subject": {subject}}, "sessions"); err != nil {
		return reply{}, err
	}
	for _, s := range sessions.Sessions {
		if s.Session == session {
			active := 0
			for _, g := range s.Grants {
				if g.State == "active" {
					active++
				}
			}
			return reply{page: endUserSessionPage{s, active, "mintage session end --subject " + quoteValue(subject) + " " + quote(session)}}, nil
		}
	}
	return reply{}, errNotFound
}

func (c grantPages) endUserSession(ctx context.Context, r *request) (reply, error) {
	in := adminapi.SessionRequest{Subject: r.PostFormValue("subject"), Session: r.PostFormValue("session")}
	if in.Session == "" { // it would end all
		return reply{}, errNotFound
	}
	err := c.post(ctx, r, in, nil, "sessions", "end")
	return reply{to: "/grants?" + url.Values{"subject": {in.Subject}, "done": {"session"}}.Encode()}, err
}
