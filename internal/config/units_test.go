package config_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

func TestSizeRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		s    config.Size
		text string
	}{{0, "0"}, {config.KiB, "1KiB"}, {512 * config.MiB, "512MiB"}, {1536 * config.MiB, "1536MiB"}, {10 * config.GiB, "10GiB"}, {8388607 * config.TiB, "8388607TiB"}} {
		if got := tt.s.String(); got != tt.text {
			t.Errorf("%d is written %q, want %q", tt.s, got, tt.text)
		}
		if got, err := config.ParseSize(tt.text); err != nil || got != tt.s {
			t.Errorf("%q is read %d, %v", tt.text, got, err)
		}
	}
	for text, want := range map[string]config.Size{"1024MiB": config.GiB, "0GiB": 0} {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("%q is read %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "GiB", "-1GiB", "+1GiB", "1.5GiB", "10 GiB", "10GB", "10G", "8388608TiB", "99999999999999999999KiB", "much"} {
		if got, err := config.ParseSize(text); err == nil || !strings.Contains(err.Error(), "512MiB or 10GiB") {
			t.Errorf("%q is read %d, %v", text, got, err)
		}
	}
}
