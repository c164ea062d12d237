package logout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

const (
	// Attempts back off exponentially: after a client's first failure, its next attempt comes
	// after a second, then after twice as long each time, at most an hour. A new token is
	// tried at once, but not within a second after a failure.
	attemptTime = 5 * time.Second
	firstPause  = time.Second
	longestRest = time.Hour
	// giveUpAfter is how long attempts are repeated. A token is sent once in any case.
	giveUpAfter = 24 * time.Hour
	// maxBody is how much of an answer is read.
	maxBody = 4 << 10
)

// newClient returns the HTTP client that calls the receivers.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConns: 64, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
			DisableCompression: true, MaxResponseHeaderBytes: 16 << 10, ForceAttemptHTTP2: true,
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// post sends a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.5). code is
// the OAuth error code of a response with status 400.
func (o *Outbox) post(ctx context.Context, address, text string) (status int, code string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(url.Values{"logout_token": {text}}.Encode()))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "mintage")
	resp, err := o.client.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the text of inner repeats the address
		}
		return 0, "", err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody)) // the status decides
	var told struct {
		Error string `json:"error"`
	}
	if resp.StatusCode == http.StatusBadRequest && json.Unmarshal(body, &told) == nil && isCode(told.Error) {
		code = told.Error
	}
	return resp.StatusCode, code, nil
}

// isCode reports whether text has the form of an error code of OAuth.
func isCode(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') })
}

// pause returns how long to wait after this many failed attempts.
func pause(attempts int) time.Duration {
	if attempts > 12 {
		return longestRest
	}
	return min(firstPause<<(max(1, attempts)-1), longestRest)
}

// notifiable returns a client, and whether it is enabled and has an address to call.
func (o *Outbox) notifiable(view *directory.View, clientID string) (*store.Client, bool) {
	c, ok := view.Client(o.Realm, clientID)
	return c, ok && c.LogoutURI != ""
}

// attempt sends a token once and returns its new state. After a failure, the client's
// next attempt is due after wait.
func (o *Outbox) attempt(ctx context.Context, iss *issuer.Issuer, t Token, wait time.Duration) (Token, error) {
	view, err := o.Directory.View()
	if err != nil {
		return t, err
	}
	c, ok := o.notifiable(view, t.ClientID)
	if !ok {
		t.State, t.Answer = Dropped, "the client is disabled, or has no backchannel_logout_uri any more"
		return t, nil
	}
	text, err := iss.Signer().Logout(c, t.Subject, t.SessionID)
	if err != nil {
		return t, err
	}
	status, code, err := o.post(ctx, c.LogoutURI, text)
	if ctx.Err() != nil {
		return t, ctx.Err() // this node stops: the client has not failed
	}
	t.Tried = grant.At(o.Now())
	t.Attempts++
	switch {
	case err != nil:
		t.Answer = short(err)
	default:
		t.Answer = strings.TrimSpace(fmt.Sprintf("answered %d %s", status, code))
	}
	switch {
	case err == nil && (status == http.StatusOK || status == http.StatusNoContent):
		t.State = Delivered
	case err == nil && status == http.StatusBadRequest:
		t.State = Refused
	case t.Tried.Since(t.At) >= giveUpAfter:
		t.State = GivenUp
	default:
		t.Next = t.Tried.Add(wait)
	}
	return t, nil
}

// short returns the text of an error, bounded, in one line.
func short(err error) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer within 5 seconds"
	}
	return text[:min(len(text), 200)]
}

// narrow returns, for a token about all sessions of a subject, a token for each session
// that ended. newer reports whether the client has a session that began later, which a
// token about all sessions would end.
func (o *Outbox) narrow(ctx context.Context, d store.Document, t Token) (list []store.Document, newer bool, err error) {
	of := map[[16]byte]bool{}
	for g, err := range store.EachGrant(ctx, o.Store, store.GrantFilter{Realm: o.Realm, Subject: t.Subject, ClientID: t.ClientID}) {
		switch {
		case err != nil:
			return nil, false, err
		case g.AuthorizedAt > t.Until:
			newer = true
		case g.Session != [16]byte{} && !of[g.Session]:
			of[g.Session] = true
			one := Token{ClientID: t.ClientID, Subject: t.Subject, SessionID: openid.SessionID(g.Session, t.ClientID), At: t.At, State: Pending}
			list = append(list, one.document(o.Realm, d.Key, rounds[0].name))
		}
	}
	return list, newer, nil
}

// record writes the result of a token into the metrics and the audit log.
func (o *Outbox) record(t Token) {
	o.Metrics.LogoutToken(string(t.State))
	outcome := map[State]audit.Outcome{Delivered: audit.Success, Refused: audit.Refused, GivenUp: audit.Failed}[t.State]
	switch t.State {
	case Pending:
		if t.Attempts == 1 {
			o.Log.Warn("cannot notify a client of a logout; retrying for 24 hours", "client_id", t.ClientID, "answer", t.Answer)
		}
		return
	case GivenUp:
		o.Log.Error("gave up notifying a client of a logout after 24 hours", "client_id", t.ClientID, "attempts", t.Attempts, "answer", t.Answer)
	case Refused:
		o.Log.Warn("a client has refused a logout token", "client_id", t.ClientID, "answer", t.Answer)
	case Dropped:
		outcome = audit.Failed
	}
	about := "sid " + t.SessionID
	if t.SessionID == "" {
		about = "all sessions"
	}
	o.Audit.Record(audit.Event{
		Name: audit.LogoutSent, Outcome: outcome, Realm: o.Realm, ClientID: t.ClientID, Subject: t.Subject, Actor: "server",
		Detail: fmt.Sprintf("%s; attempt %d: %s", about, t.Attempts, t.Answer),
	})
}
