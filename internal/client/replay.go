package client

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

const (
	// assertionLife is how long an assertion of a client's own may live, and
	// assertionAhead how far ahead its expiry may lie in addition.
	assertionLife  = 5 * time.Minute
	assertionAhead = time.Minute
	// usedPeriod is longer than the life of any assertion that is remembered.
	usedPeriod = assertionLife + 2*assertionAhead
	// maxUsed limits the assertions of a period, and maxUsedOfOne those of a client.
	maxUsed, maxUsedOfOne = 200_000, 50_000
	// maxOwnUsed limits the assertions of all clients that registered themselves, and
	// ownUsedPart those of one of them: to a ninth of the free room (overload.Fair), or a
	// tenth of all room if it is alone.
	maxOwnUsed, ownUsedPart = 100_000, 9
)

// used remembers the assertions of the present and the last period, in bounded memory.
// Clients that registered themselves have a separate one: anyone can create any number of
// such clients. The zero value is ready to use.
type used struct {
	mu            sync.Mutex
	began         time.Time
	present, last map[[16]byte]struct{}
	of            map[string]int // assertions of the present period, by client
}

// note remembers an assertion of a client, which may have registered itself (own).
// First is false if the assertion was remembered before; full is true if there is no
// room for it.
func (u *used) note(clientID, jti string, now time.Time, own bool) (first, full bool) {
	sum := sha256.Sum256([]byte(clientID + "\x00" + jti))
	key := [16]byte(sum[:])
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.present == nil || now.Sub(u.began) >= usedPeriod {
		u.last, u.present, u.of, u.began = u.present, map[[16]byte]struct{}{}, map[string]int{}, now
	}
	_, again := u.present[key]
	_, before := u.last[key]
	room := len(u.present) < maxUsed && u.of[clientID] < maxUsedOfOne
	if own {
		room = overload.Fair(u.of[clientID], 1, maxOwnUsed-len(u.present), ownUsedPart)
	}
	switch {
	case again || before:
		return false, false
	case !room:
		return false, true
	}
	u.present[key] = struct{}{}
	u.of[clientID]++
	return true, false
}
