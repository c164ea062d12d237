package audit

import (
	"context"
	"time"
)

// OldSecretUsed records that a client has used a secret that is not its newest:
// at most once an hour for each.
func (l *Log) OldSecretUsed(ctx context.Context, realm, clientID, secretID string) {
	if l == nil {
		return
	}
	now := l.opt.Now()
	l.mu.Lock()
	last, seen := l.seen[secretID]
	again := !seen || now.Sub(last) >= time.Hour || now.Before(last)
	if again {
		l.seen[secretID] = now // as many as there are secrets
	}
	l.mu.Unlock()
	if again {
		l.Record(From(ctx).Event(Event{
			Name: OldSecretUsed, Time: now, Realm: realm, ClientID: clientID, Detail: "secret " + secretID + ", which is not the newest",
		}))
	}
}
