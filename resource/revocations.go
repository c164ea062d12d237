package resource

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

const (
	maxRevocations = 8 << 20 // bytes: about 100,000 entries
	// The list is fetched as often as it changes, within these limits.
	leastPoll   = time.Second
	defaultPoll = 5 * time.Second
	mostPoll    = time.Minute
	// issuerRealm is part of the blinded names in every issuer's list, also in those of
	// realms with another name.
	issuerRealm = "/api"
)

// revocations is a list of revocations: of grants, with the instant up to which
// their tokens are revoked, and of subjects and clients, with the instant up to
// which their grants are. It is complete for tokens issued at or after IssuedAt -
// Covers; older ones have expired.
type revocations struct {
	Issuer    string           `json:"iss"`
	IssuedAt  numericDate      `json:"iat"`
	ExpiresAt numericDate      `json:"exp"`
	Covers    int64            `json:"covers_ms"`
	Grants    map[string]int64 `json:"grants"` // by blind names; milliseconds since 1970
	Cutoffs   map[string]int64 `json:"cutoffs"`
	etag      string
	every     time.Duration // how often it is asked for
}

func parseRevocations(payload []byte, issuer string, now time.Time, leeway time.Duration) (*revocations, error) {
	var l revocations
	if err := json.Unmarshal(payload, &l); err != nil {
		return nil, err
	}
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	text := firstOf(
		fault{l.Issuer != issuer, "the list is of another issuer"},
		fault{l.IssuedAt == 0 || now.Add(leeway).Before(l.IssuedAt.time()), "the list is from the future; are the clocks right?"},
		fault{!now.Before(l.ExpiresAt.time()), "the list has ended; are the clocks right?"},
		fault{l.Covers <= 0 || l.Covers > longest || l.Grants == nil || l.Cutoffs == nil, "the list lacks covers_ms, grants or cutoffs"},
	)
	if text != "" {
		return nil, errors.New(text)
	}
	for _, part := range []map[string]int64{l.Grants, l.Cutoffs} {
		for name := range part {
			b, err := base64.RawURLEncoding.Strict().DecodeString(name)
			if err != nil || len(b) != blindSize || len(name) != base64.RawURLEncoding.EncodedLen(blindSize) {
				return nil, errors.New("the list has an entry that is not understood")
			}
		}
	}
	return &l, nil
}

// revoked reports whether the token is revoked, and why. An exchanged token is also
// revoked by its own id, and with any client that acts. Its grant may be another client's.
func (l *revocations) revoked(id tokenID, c *claims) (reason string, dead bool) {
	if floor, ok := l.Grants[blindGrant(id.grant)]; ok && id.issuedAt <= floor {
		return "revoked", true
	}
	clientID := c.ClientID
	if id.exchanged {
		if _, ok := l.Grants[blindGrant(id.own)]; ok {
			return "revoked", true
		}
		clients := []string{c.ClientID}
		for a := c.Actor; a != nil; a = a.Before {
			if a.Issuer == "" {
				clients = append(clients, a.Subject)
			}
		}
		for _, actor := range clients {
			if l.cut(id.exchangedAt, c.Subject, actor) || l.cut(id.exchangedAt, actor, actor) {
				return "revoked with all of a client", true
			}
		}
		clientID = c.GrantedTo
	}
	if l.cut(id.authorizedAt, c.Subject, clientID) {
		return "revoked with all of a subject or client", true
	}
	if id.issuedAt < int64(l.IssuedAt)-l.Covers {
		// Without this check, Leeway would accept the token after its revocation has left the
		// list.
		return "expired when the list of revocations was made", true
	}
	return "", false
}

// cut reports whether a cutoff of a subject, a client or both revokes what they had at an
// instant.
func (l *revocations) cut(instant int64, subject, clientID string) bool {
	for _, who := range [][2]string{{subject, ""}, {"", clientID}, {subject, clientID}} {
		if at, ok := l.Cutoffs[blind("mintage/cutoff", issuerRealm, who[0], who[1])]; ok && instant <= at {
			return true
		}
	}
	return false
}

// A follower holds the current list of revocations.
type follower struct {
	v       *Verifier
	outage  outage
	current atomic.Pointer[revocations]
	tried   chan struct{} // closed when there is a list, or the first try has failed
}

func newFollower(v *Verifier) *follower {
	return &follower{v: v, tried: make(chan struct{}), outage: outage{what: "fetching the list of revocations", log: v.cfg.Logger}}
}

// run fetches the list until the verifier is closed.
func (f *follower) run(ctx context.Context) {
	failures := 0
	for first := true; ; first = false {
		wait, err := f.poll(ctx)
		f.outage.note(err)
		if failures++; err == nil {
			failures = 0
		} else {
			wait = min(time.Duration(failures)*leastPoll, pause)
		}
		if first {
			close(f.tried)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// poll fetches the list once, and returns the time until the next poll.
func (f *follower) poll(ctx context.Context) (time.Duration, error) {
	m, err := f.v.metadata.get(ctx)
	if err != nil {
		return 0, err
	}
	header := http.Header{"Accept": {"application/jwt"}}
	have := f.present()
	// A response that the list is unchanged does not extend it. Fetch it whole if
	// it could expire before the next poll.
	if have != nil && have.etag != "" && time.Now().Add(have.every+pause+requestTimeout).Before(have.ExpiresAt.time()) {
		header.Set("If-None-Match", have.etag)
	}
	r, body, err := get(ctx, f.v.client, m.Revocations, maxRevocations, header)
	if err != nil {
		return 0, err
	}
	wait := freshness(r.Header, defaultPoll, leastPoll, mostPoll)
	if r.StatusCode == http.StatusNotModified {
		return wait, nil
	}
	payload, err := f.v.open(ctx, string(body), "revocations+jwt")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.Revocations, err)
	}
	l, err := parseRevocations(payload, f.v.cfg.Issuer, time.Now(), f.v.cfg.Leeway)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.Revocations, err)
	}
	l.etag, l.every = r.Header.Get("ETag"), wait
	// An older list of another node or cache must not make a token valid again.
	if have == nil || l.IssuedAt >= have.IssuedAt {
		f.current.Store(l)
	}
	return wait, nil
}

// present returns the current list, or nil. It ignores a list from the future, made before
// the clocks were put back: poll would reject all lists that follow as older, until they
// reach its time.
func (f *follower) present() *revocations {
	l := f.current.Load()
	if l != nil && time.Now().Add(f.v.cfg.Leeway).Before(l.IssuedAt.time()) {
		return nil
	}
	return l
}

// check refuses a token that is in the list, and every token while there is no valid
// list.
func (f *follower) check(ctx context.Context, c *claims) error {
	l, err := f.list(ctx)
	if err != nil {
		return err
	}
	id, ok := parseTokenID(c.ID)
	if !ok || id.exchanged != (c.GrantedTo != "") {
		return invalid("its jti does not have the format that Mintage gives such a token")
	}
	if reason, dead := l.revoked(id, c); dead {
		return invalid(reason)
	}
	return nil
}

func (f *follower) list(ctx context.Context) (*revocations, error) {
	if err := f.v.work.wait(ctx, f.tried); err != nil {
		return nil, err
	}
	l := f.present()
	if l == nil || !time.Now().Before(l.ExpiresAt.time().Add(f.v.cfg.StaleRevocations)) {
		return nil, unavailable(errors.New("no current list of revocations"))
	}
	return l, nil
}
