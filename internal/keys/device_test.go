package keys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

func theDeviceCode() keys.DeviceCode {
	return keys.DeviceCode{GrantID: grant.ID{1, 2}, UserCode: [32]byte{3}, ClientID: "cli", IssuedAt: theCode().AuthorizedAt, ExpiresAt: theCode().AuthorizedAt.Add(10 * time.Minute)}
}

func TestDeviceCodes(t *testing.T) {
	r := frozenRing(t)
	for _, id := range []string{"", "cli", strings.Repeat("x", 255)} {
		d := theDeviceCode()
		d.ClientID = id
		text, err := keys.SealDeviceCode(r, "/api", d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := keys.OpenDeviceCode(r, "/api", text); err != nil || got != d {
			t.Errorf("%+v, %v", got, err)
		}
		if again, _ := keys.SealDeviceCode(r, "/api", d); again == text {
			t.Error("two codes are the same text")
		}
		if _, err := keys.OpenDeviceCode(r, "/other", text); err != keys.ErrNotAuthentic {
			t.Errorf("in another realm: %v", err)
		}
		if _, err := r.OpenCode("/api", keys.CodePrefix+strings.TrimPrefix(text, keys.DevicePrefix)); err != keys.ErrNotAuthentic {
			t.Errorf("as an authorization code: %v", err)
		}
		if got := r.Diagnose("/api", text); got.Form != keys.DeviceForm || got.Fault != keys.NoFault {
			t.Errorf("diagnosed as %+v", got)
		}
	}
}

// sealedDeviceCode is theDeviceCode, sealed once: all processes of the fuzzer need the
// same text.
const sealedDeviceCode = keys.DevicePrefix + "AUIwXn-Sc87J2yQDCMI7euilz8BRq0dwLg2dxkXqET0z2QGicFRYC33Wcs8IH3zvJhz7I0odQsiNTD_xYpcSB1OgY7SnRg7HsofeTYDs8uA1lWN-Y2ImtgKMAteEdjuavS1FZ75TxXOlf3Fe"

// No other text is accepted as a device code, not even another encoding of this one.
func FuzzOpenDeviceCode(f *testing.F) {
	r := frozenRing(f)
	if got, err := keys.OpenDeviceCode(r, "/api", sealedDeviceCode); err != nil || got != theDeviceCode() {
		f.Fatalf("%+v, %v", got, err)
	}
	f.Add("/api", sealedDeviceCode)
	f.Add("", sealedDeviceCode)
	f.Add("/api", keys.DevicePrefix)
	f.Add("/api", sealedDeviceCode+"A")
	f.Add("/api", sealedDeviceCode+"=")
	f.Add("/api", sealedDeviceCode[:len(sealedDeviceCode)-1])
	f.Add("/api", sealedDeviceCode[:len(sealedDeviceCode)-1]+"f") // other bits that are not used
	f.Add("/api", sealedDeviceCode[:60]+"\n"+sealedDeviceCode[60:])
	f.Fuzz(func(t *testing.T, realm, text string) {
		got, err := keys.OpenDeviceCode(r, realm, text)
		if err == nil && (realm != "/api" || text != sealedDeviceCode) {
			t.Fatalf("%q is accepted: %+v", text, got)
		}
		if err != nil && (err != keys.ErrNotAuthentic || got != keys.DeviceCode{}) {
			t.Fatalf("%q is refused with %+v, %v", text, got, err)
		}
	})
}
