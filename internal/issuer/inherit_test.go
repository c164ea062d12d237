package issuer

import "testing"

func TestTwoConfigurationsKeepTheBoundsOfOne(t *testing.T) {
	old, next := New(Issuer{}), New(Issuer{})
	next.Inherit(old)
	if next.feed != old.feed {
		t.Error("the list of revocations is made twice a second")
	}
}
