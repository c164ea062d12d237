package keys

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// Layout of the MAC of a line of the audit log: the id of its key in eight
// hexadecimal digits, a hyphen, and 128 bits of HMAC-SHA-256 in hexadecimal
// digits: half of the output, the least that RFC 2104 section 5 recommends.
const (
	lineMAC = 16
	// LineMACSize is the length of the MAC of a line.
	LineMACSize = 8 + 1 + 2*lineMAC
)

// lineLabel separates these MACs from those of other kinds.
const lineLabel = "mintage/1/audit line\x00"

// lineGrace is how much later than its key's last use or withdrawal a line may be
// dated: a node that cannot reach the store uses the key a little longer, and the clocks
// of nodes differ. It gives nothing to an attacker with a withdrawn key, who can
// backdate a line anyway.
const lineGrace = time.Hour

// ErrOutOfUse is returned for a MAC by a key that was not in use any more.
var ErrOutOfUse = errors.New("its key was not in use any more")

// AppendLineMAC appends the MAC of a line of the audit log under the key in use at
// now. It appends nothing if the ring has no such key, as rings of earlier
// versions do.
func (r *Ring) AppendLineMAC(dst, line []byte, now grant.Instant) []byte {
	k := r.current(Audit, now)
	if k == nil {
		return dst
	}
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], uint32(k.ID))
	var sum [sha256.Size]byte
	return hex.AppendEncode(append(hex.AppendEncode(dst, id[:]), '-'), k.mac(sum[:0], []byte(lineLabel), line)[:lineMAC])
}

// CheckLineMAC returns nil if mac is the MAC of line, and its key may have been in
// use at the line's date. Otherwise it returns ErrUnknownKey, ErrOutOfUse or
// ErrNotAuthentic.
func (r *Ring) CheckLineMAC(mac, line []byte, at grant.Instant) error {
	if len(mac) != LineMACSize || mac[8] != '-' {
		return ErrNotAuthentic
	}
	id, err := strconv.ParseUint(string(mac[:8]), 16, 32)
	if err != nil {
		return ErrNotAuthentic
	}
	k := r.lookup(grant.KeyID(id), Audit)
	if k == nil {
		return ErrUnknownKey
	}
	want := k.mac(nil, []byte(lineLabel), line)[:lineMAC]
	got, err := hex.DecodeString(string(mac[9:]))
	if err != nil || subtle.ConstantTimeCompare(got, want) != 1 {
		return ErrNotAuthentic
	}
	used := r.used[Audit]
	i := place(used, k.ID)
	withdrawn := k.WithdrawnAt()
	if withdrawn != 0 && at > withdrawn.Add(lineGrace) || i >= 0 && i+1 < len(used) && at > used[i+1].ActiveAt.Add(lineGrace) {
		return ErrOutOfUse
	}
	return nil
}

// HasAudit reports whether the ring holds a key for the audit log.
func (r *Ring) HasAudit() bool { return len(r.lines[Audit]) > 0 }
