// Package peer opens what routing is compared to.
package peer

import (
	"database/sql"
	"fmt"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/plugin/dbresolver"

	"freshread/internal/dbroute"
)

// Gorm opens gorm on one server, with what makes its reads quick.
func Gorm(engine dbroute.Engine, db *sql.DB) (*gorm.DB, error) {
	opened, err := gorm.Open(dialector(engine, db), &gorm.Config{
		Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open gorm: %w", err)
	}
	return opened, nil
}

// Resolver opens gorm with its dbresolver: SELECT goes to the replica, all else to the
// primary.
func Resolver(engine dbroute.Engine, primary, replica *sql.DB) (*gorm.DB, error) {
	db, err := Gorm(engine, primary)
	if err != nil {
		return nil, err
	}
	err = db.Use(dbresolver.Register(dbresolver.Config{Replicas: []gorm.Dialector{dialector(engine, replica)}}))
	if err != nil {
		return nil, fmt.Errorf("open dbresolver: %w", err)
	}
	return db, nil
}

func dialector(engine dbroute.Engine, db *sql.DB) gorm.Dialector {
	if engine == dbroute.PostgreSQL {
		return postgres.New(postgres.Config{Conn: db})
	}
	return mysql.New(mysql.Config{Conn: db, SkipInitializeWithVersion: true})
}
