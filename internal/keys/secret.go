package keys

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/mintage/mintage/internal/oauth"
)

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// RandomText returns n characters, each chosen uniformly from A-Z, a-z and 0-9 (5.95
// bits): programs disagree about how to escape other characters in a Basic header.
func RandomText(n int) string {
	out := make([]byte, 0, n)
	var b [64]byte
	for len(out) < n {
		rand.Read(b[:])
		for _, c := range b {
			// 248 is the largest multiple of 62 in a byte: no bias.
			if c < 248 && len(out) < n {
				out = append(out, alphanumeric[c%62])
			}
		}
	}
	return string(out)
}

// NewSecret generates a client secret of 256 bits.
func NewSecret() oauth.Secret { return oauth.Secret(RandomText(43)) }

// Digest returns the stored form of a generated secret: the id of the ring's
// pepper and HMAC-SHA-256 under it. A check takes about a microsecond; against 256
// bits of entropy, a slow hash adds nothing. Compare digests in constant time.
func (r *Ring) Digest(s oauth.Secret) []byte { return r.peppered("mintage/1/client secret\x00", s) }

// AdminTokenDigest returns the stored form of a token of the admin API, like Digest.
func (r *Ring) AdminTokenDigest(t oauth.Secret) []byte {
	return r.peppered("mintage/1/admin token\x00", t)
}

// IsAdminToken reports whether digest is the stored form of t, in constant time.
func (r *Ring) IsAdminToken(digest []byte, t oauth.Secret) bool {
	return subtle.ConstantTimeCompare(digest, r.AdminTokenDigest(t)) == 1
}

func (r *Ring) peppered(label string, s oauth.Secret) []byte {
	k := r.current(Pepper, 0)
	out := binary.BigEndian.AppendUint32(nil, uint32(k.ID))
	return k.mac(out, []byte(label), []byte(s))
}

// Cost of argon2id: 19 MiB, two passes, one lane, about 25 ms of one core.
const (
	argonMemory = 19 << 10 // KiB
	argonTime   = 2
	slowSalt    = 16
	slowSum     = 32
)

// HashSlow returns the stored form of an imported secret or a password, which may
// have little entropy: argon2id in PHC text.
func HashSlow(s oauth.Secret) string {
	salt := make([]byte, slowSalt)
	rand.Read(salt)
	return slowText(salt, argon2.IDKey([]byte(s), salt, argonTime, argonMemory, 1, slowSum))
}

func slowText(salt, sum []byte) string {
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, argonMemory, argonTime,
		enc.EncodeToString(salt), enc.EncodeToString(sum))
}

// UnmatchableHash returns a random hash, which matches no known password.
func UnmatchableHash() string {
	var b [slowSalt + slowSum]byte
	rand.Read(b[:])
	return slowText(b[:slowSalt], b[slowSalt:])
}

// CheckSlow returns an error if a hash of another system cannot be stored. The hash
// may cost up to seven times as much as HashSlow's: every login pays for it.
func CheckSlow(phc string) error {
	h, err := parseSlow(phc)
	if err == nil && (len(phc) > 255 || h.m > 64<<10 || h.t*h.m > 256<<10) {
		err = errors.New("argon2id costs too much: at most 64 MiB, and 256 MiB times passes")
	}
	return err
}

// MatchSlow reports whether s has the hash phc. It costs as much as phc states; the
// caller limits how many run at once.
func MatchSlow(phc string, s oauth.Secret) (bool, error) {
	h, err := parseSlow(phc)
	if err != nil {
		return false, err
	}
	got := argon2.IDKey([]byte(s), h.salt, uint32(h.t), uint32(h.m), uint8(h.p), uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(got, h.sum) == 1, nil
}

// A slowHash is a stored hash: its costs, its salt and the hash itself.
type slowHash struct {
	m, t, p   int // memory in KiB, passes, lanes
	salt, sum []byte
}

func parseSlow(phc string) (h slowHash, err error) {
	var v int
	f := strings.Split(phc, "$")
	if len(f) != 6 || f[1] != "argon2id" {
		return h, errors.New("stored secret is not argon2id")
	}
	const form = "v=%d m=%d,t=%d,p=%d" // nothing may follow: PHC allows parameters that are unknown here
	parameters := f[2] + " " + f[3]
	if _, err := fmt.Sscanf(parameters, form, &v, &h.m, &h.t, &h.p); err != nil || fmt.Sprintf(form, v, h.m, h.t, h.p) != parameters || v != argon2.Version ||
		h.m < 8 || h.m > 1<<20 || h.t < 1 || h.t > 16 || h.p < 1 || h.p > 16 {
		return h, errors.New("stored secret has argon2id parameters out of bounds")
	}
	var err1, err2 error
	h.salt, err1 = base64.RawStdEncoding.DecodeString(f[4])
	h.sum, err2 = base64.RawStdEncoding.DecodeString(f[5])
	if err1 != nil || err2 != nil || len(h.sum) < 16 || len(h.sum) > 64 {
		return h, errors.New("stored secret is damaged")
	}
	return h, nil
}
