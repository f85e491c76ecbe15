package dbroute

// Engine names a database product.
type Engine string

// The products that a cluster can be made of.
const (
	PostgreSQL Engine = "postgres"
	MySQL      Engine = "mysql"
	MariaDB    Engine = "mariadb"
)

// Engine returns the product that all servers of the cluster are.
func (c *Cluster) Engine() Engine { return c.engine.name() }

// PerEngine is a statement that no one text serves on all engines. Placeholders
// are ? in each.
type PerEngine struct{ Postgres, MySQL, MariaDB string }

// For returns the text for an engine.
func (p PerEngine) For(e Engine) string {
	switch e {
	case MySQL:
		return p.MySQL
	case MariaDB:
		return p.MariaDB
	}
	return p.Postgres
}
