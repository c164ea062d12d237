package config

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkAddresses checks the form of each listener's TCP address, and that no two listeners
// share an address.
func checkAddresses(c *Config, bad report) {
	type address struct{ key, text, form, host, port string }
	var taken []address
	for _, a := range []address{
		{key: "listen", text: c.Listen, form: "HOST:PORT"}, {key: "management.listen", text: c.Management.Listen, form: "HOST:PORT"},
		{key: "admin.listen", text: c.AdminListen(), form: "unix:PATH or HOST:PORT"}, {key: "console.listen", text: c.Console.Listen, form: "HOST:PORT"},
	} {
		if strings.HasPrefix(a.text, "unix:") && a.key == "admin.listen" || a.text == "" && a.key == "console.listen" {
			continue
		}
		var err error
		if a.host, a.port, err = net.SplitHostPort(a.text); err != nil {
			bad(a.key, "%q must be %s", a.text, a.form)
			continue
		}
		if n, err := strconv.Atoi(a.port); err == nil && (n < 0 || n > math.MaxUint16) {
			bad(a.key, "%q: port %d is outside 0 to %d", a.text, n, math.MaxUint16)
		}
		if i := slices.IndexFunc(taken, func(b address) bool { return a.port == b.port && sameHost(a.host, b.host) }); i >= 0 && a.port != "0" {
			bad(a.key, "%q is taken by %s, %q: choose another port", a.text, taken[i].key, taken[i].text)
		}
		taken = append(taken, a)
	}
}

// sameHost reports whether two hosts have an address in common. An unspecified host stands
// for every address of the machine, of IPv4 and of IPv6 (package net).
func sameHost(a, b string) bool {
	x, y := hostAddress(a), hostAddress(b)
	return a == b || x == y && x.IsValid() || x.IsUnspecified() || y.IsUnspecified()
}

// hostAddress returns the IP address of a host, and the zero Addr for another name than
// localhost.
func hostAddress(host string) netip.Addr {
	switch host {
	case "":
		return netip.IPv6Unspecified()
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	a, _ := netip.ParseAddr(host)
	return a.Unmap()
}

// isSite reports whether u, parsed from text, is a scheme and a host, and a port or none.
func isSite(u *url.URL, text string) bool {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Hostname() != "" && u.User == nil && u.Path == "" && !strings.ContainsAny(text, "?#") &&
		(err == nil && port > 0 || u.Port() == "" && !strings.HasSuffix(u.Host, ":"))
}

// IsLoopback reports whether a host is this machine, and no other can reach it.
func IsLoopback(host string) bool { return hostAddress(host).IsLoopback() }

func postgresURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" && u.Query().Get("host") == "" {
		return nil, &Fault{Name: "store", Err: errors.New("it must be sqlite or a URL like postgres://USER@HOST:5432/DATABASE, with a port for each of several hosts, and %-escapes for special characters")}
	}
	return u, nil
}

func hasPassword(u *url.URL) bool {
	_, given := u.User.Password()
	return given || u.Query().Has("password") || u.Query().Has("sslpassword")
}
