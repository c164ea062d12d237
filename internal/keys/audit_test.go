package keys_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/keys"
)

const auditLine = `{"seq":1,"event":"login_succeeded"`

// Only a holder of the audit key can compute the MAC of a line, and only while the key is
// in use.
func TestLineMACProvesTheWriterAndTheTimeOfALine(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	rotated := frozenAt.Add(30 * 24 * time.Hour)
	first, second := newKey(t, kek, keys.Audit, frozenAt), newKey(t, kek, keys.Audit, rotated)
	old, err := keys.Open(kek, append(frozenRecords(), first))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.Open(kek, append(frozenRecords(), first, second))
	if err != nil {
		t.Fatal(err)
	}
	gone, err := kek.Withdraw(second, rotated.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	withdrawn, err := keys.Open(kek, append(frozenRecords(), first, gone))
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(auditLine)
	if mac := frozenRing(t).AppendLineMAC(nil, line, frozenAt); mac != nil || frozenRing(t).HasAudit() || !ring.HasAudit() {
		t.Errorf("a ring without the key makes %q", mac)
	}
	byFirst, bySecond := ring.AppendLineMAC(nil, line, rotated-1), ring.AppendLineMAC([]byte("x"), line, rotated)[1:]
	if len(byFirst) != keys.LineMACSize || !bytes.HasPrefix(byFirst, []byte(first.ID.String()+"-")) || !bytes.HasPrefix(bySecond, []byte(second.ID.String()+"-")) {
		t.Errorf("the MACs are %s and %s", byFirst, bySecond)
	}
	for name, c := range map[string]struct {
		ring  *keys.Ring
		mac   []byte
		line  string
		later time.Duration
		want  error
	}{
		"by the key of then":                             {ring, byFirst, auditLine, -time.Second, nil},
		"by the key of now":                              {ring, bySecond, auditLine, 0, nil},
		"dated before its key":                           {ring, bySecond, auditLine, -time.Hour, nil}, // the line was queued before
		"late, by a node that is slow":                   {ring, byFirst, auditLine, time.Hour, nil},
		"by a key out of use":                            {ring, byFirst, auditLine, time.Hour + time.Second, keys.ErrOutOfUse},
		"by a key before its withdrawal":                 {withdrawn, bySecond, auditLine, 0, nil},
		"withdrawn, by a node that has not learnt of it": {withdrawn, bySecond, auditLine, time.Hour, nil},
		"by a key that was withdrawn":                    {withdrawn, bySecond, auditLine, time.Hour + 2*time.Second, keys.ErrOutOfUse},
		"of another line":                                {ring, byFirst, auditLine + " ", 0, keys.ErrNotAuthentic},
		"by a key that is unknown":                       {old, bySecond, auditLine, 0, keys.ErrUnknownKey},
		"by a key of another purpose":                    {ring, append([]byte(frozenMAC.String()), byFirst[8:]...), auditLine, 0, keys.ErrUnknownKey},
		"under another key's name":                       {ring, append([]byte(second.ID.String()), byFirst[8:]...), auditLine, 0, keys.ErrNotAuthentic},
		"cut short":                                      {ring, byFirst[:len(byFirst)-1], auditLine, 0, keys.ErrNotAuthentic},
		"only the name of a key":                         {ring, byFirst[:8], auditLine, 0, keys.ErrNotAuthentic},
		"none":                                           {ring, nil, auditLine, 0, keys.ErrNotAuthentic},
		"another character after the key":                {ring, bytes.Replace(byFirst, []byte("-"), []byte("+"), 1), auditLine, 0, keys.ErrNotAuthentic},
		"no digits":                                      {ring, bytes.Repeat([]byte("-"), keys.LineMACSize), auditLine, 0, keys.ErrNotAuthentic},
		"changed at its end":                             {ring, append(bytes.Clone(byFirst[:len(byFirst)-1]), "0123456789abcdef"[byFirst[len(byFirst)-1]&1]), auditLine, 0, keys.ErrNotAuthentic},
	} {
		if name == "changed at its end" && bytes.Equal(c.mac, byFirst) {
			c.mac[len(c.mac)-1] = 'f'
		}
		if err := c.ring.CheckLineMAC(c.mac, []byte(c.line), rotated.Add(c.later)); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
