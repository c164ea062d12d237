package config

import (
	"errors"
	"net/url"
)

// StoreSQLite is the embedded store, for one node.
const StoreSQLite = "sqlite"

// CheckStore is the part of Check about where grants and clients are kept. Its errors never quote
// the URL, which may hold a password.
func (c *Config) CheckStore() error {
	if c.Store == StoreSQLite {
		if c.StorePasswordFile != "" {
			return &Fault{Name: "store_password_file", Err: errors.New("the embedded store has no password; set store to postgres://USER@HOST:5432/DATABASE")}
		}
		return nil
	}
	u, err := postgresURL(c.Store)
	if err != nil {
		return err
	}
	if c.StorePasswordFile != "" && hasPassword(u) {
		return &Fault{Name: "store_password_file", Err: errors.New("store holds a password as well; leave one of them out")}
	}
	return nil
}

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

// StoreName is Store for people: the hosts and the database, no user, password
// or option.
func (c Config) StoreName() string {
	u, err := postgresURL(c.Store)
	if err != nil {
		return StoreSQLite
	}
	name := url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}
	if host := u.Query().Get("host"); host != "" {
		name.RawQuery = url.Values{"host": {host}}.Encode()
	}
	return name.String()
}

// refusePassword keeps passwords off the command line, which every user of the
// machine can read.
func refusePassword(store string) error {
	if u, err := postgresURL(store); err == nil && hasPassword(u) {
		return errors.New("a password in a flag can be read by everybody on this machine: use store_password_file, or set store in the configuration file or as MINTAGE_STORE")
	}
	return nil
}
