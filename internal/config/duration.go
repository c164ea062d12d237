package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
