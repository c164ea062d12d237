package binary

import (
	"net"
	"strconv"
	"testing"
)

// TestNoTwoTestsGetTheSameFreeAddress: nobody listens at a reserved address until the
// program has started, or after it was killed.
func TestNoTwoTestsGetTheSameFreeAddress(t *testing.T) {
	taken := map[int]string{}
	for range 500 {
		address := FreeAddress(t, "127.0.0.1")
		_, port, _ := net.SplitHostPort(address)
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		if by := taken[n]; by != "" {
			t.Fatalf("%s, where %s may listen", address, by)
		}
		taken[n] = address
		taken[n+2] = "the console of a server of --dev at " + address
	}
}
