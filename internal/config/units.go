package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Size is a number of bytes, written like 512MiB or 10GiB; zero is 0.
type Size int64

// The units of sizes.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var units = []struct {
	size Size
	name string
}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}

func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// ParseSize reads what String writes of whole KiB.
func ParseSize(text string) (Size, error) {
	if text == "0" {
		return 0, nil
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.name); ok {
			if n, err := strconv.ParseUint(digits, 10, 63); err == nil && n <= uint64(math.MaxInt64/u.size) {
				return Size(n) * u.size, nil
			}
		}
	}
	return 0, fmt.Errorf("%s is not a size: write it like 512MiB or 10GiB", quoted(text))
}

// A Duration is written like 90s, 5m, 12h or 31d.
type Duration time.Duration

// Std converts d.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	s := d.Std()
	switch {
	case s != 0 && s%day == 0:
		return fmt.Sprintf("%dd", s/day)
	case s != 0 && s%time.Hour == 0:
		return fmt.Sprintf("%dh", s/time.Hour)
	case s != 0 && s%time.Minute == 0:
		return fmt.Sprintf("%dm", s/time.Minute)
	}
	return s.String()
}

// ParseDuration reads what String writes, and what time.ParseDuration reads.
func ParseDuration(s string) (Duration, error) {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		days, err := strconv.Atoi(n)
		if err == nil && days >= 0 && days <= 100_000 {
			return Duration(time.Duration(days) * day), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d%time.Millisecond == 0 {
		return Duration(d), nil
	}
	return 0, fmt.Errorf("%s is not a duration: write it like 90s, 5m, 12h or 31d", quoted(s))
}
