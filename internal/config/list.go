package config

// A Listed is a setting as people see it, with its source. Passwords are left out.
type Listed struct {
	Key
	Value  string
	Source string
	Given  bool // it is not the default
}

// List returns every setting of the deployment.
func List(c Config, from Sources) (list []Listed) {
	for _, k := range Keys() {
		source, given := from[k.Name]
		text := k.Text(c)
		if k.EnvFile != "" {
			text, _ = withoutPassword(text)
		}
		list = append(list, Listed{k, text, source.String(), given})
	}
	return list
}
