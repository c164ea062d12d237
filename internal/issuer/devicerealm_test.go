package issuer_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A client of another realm is a different client, even with the same id.
func TestCodesOfDevicesOfAnotherRealmDoNotCount(t *testing.T) {
	s := testkit.New(t)
	tv, _ := s.Register(client.Registration{ID: "tv", Settings: store.Settings{Name: "TV", Auth: store.AuthNone, Scope: "read", GrantTypes: []string{store.GrantDeviceCode}}})
	other := *s.Issuer
	other.Realm = "/other"
	ask := func(iss *issuer.Issuer) error {
		_, err := issuer.DeviceCodes{Issuer: iss}.DeviceAuthorization(t.Context(), &tv, issuer.DeviceRequest{Network: netip.MustParsePrefix("192.0.2.0/24")})
		return err
	}
	var err error
	for n := 0; err == nil; n++ {
		if err = ask(s.Issuer); n > 2_000 {
			t.Fatal("the codes of a client have no limit")
		}
	}
	if !errors.Is(err, issuer.ErrManyDevices) {
		t.Fatal(err)
	}
	if err := ask(&other); err != nil {
		t.Errorf("the first code of another realm: %v", err)
	}
}
