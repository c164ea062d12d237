package postgres

import (
	"crypto/tls"
	"net/netip"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unverified lists the hosts of a URL whose connections are not encrypted or not
// authenticated, so that an attacker on the network could impersonate them. Sockets
// and loopback addresses are not listed.
func Unverified(d Database) (list []string, err error) {
	c, err := settings(d)
	if err != nil {
		return nil, err
	}
	note := func(host string, port uint16, t *tls.Config) {
		network, address := pgconn.NetworkAddress(host, port)
		verified := t != nil && (!t.InsecureSkipVerify || t.VerifyConnection != nil || t.VerifyPeerCertificate != nil)
		if network == "tcp" && !verified && !isLoopback(host) && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	first := c.ConnConfig
	note(first.Host, first.Port, first.TLSConfig)
	for _, f := range first.Fallbacks {
		note(f.Host, f.Port, f.TLSConfig)
	}
	return list, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
