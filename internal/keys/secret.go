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

// RandomText returns n characters, each chosen uniformly from A-Z, a-z and 0-9:
// programs disagree about how to escape others in a Basic header. Each has 5.95
// bits.
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
func (r *Ring) Digest(s oauth.Secret) []byte {
	k := r.current(Pepper, 0)
	out := binary.BigEndian.AppendUint32(nil, uint32(k.ID))
	return k.mac(out, []byte("mintage/1/client secret\x00"), []byte(s))
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

// MatchSlow reports whether s has the hash. It costs as much as HashSlow; the
// caller limits how many run at once.
func MatchSlow(phc string, s oauth.Secret) (bool, error) {
	var v, m, t, p int
	f := strings.Split(phc, "$")
	if len(f) != 6 || f[1] != "argon2id" {
		return false, errors.New("stored secret is not argon2id")
	}
	if _, err := fmt.Sscanf(f[2]+" "+f[3], "v=%d m=%d,t=%d,p=%d", &v, &m, &t, &p); err != nil || v != argon2.Version ||
		m < 8 || m > 1<<20 || t < 1 || t > 16 || p < 1 || p > 16 {
		return false, errors.New("stored secret has argon2id parameters out of bounds")
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(f[4])
	want, err2 := base64.RawStdEncoding.DecodeString(f[5])
	if err1 != nil || err2 != nil || len(want) < 16 || len(want) > 64 {
		return false, errors.New("stored secret is damaged")
	}
	got := argon2.IDKey([]byte(s), salt, uint32(t), uint32(m), uint8(p), uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}
