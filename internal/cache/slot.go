package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"freshread/internal/dbroute"
)

// Each entry belongs to a slot, and whoever changes it holds the slot's row: whoever
// stores it, forgets it, or cleans it up. The rows are always there, unlike those of
// the entries: in InnoDB two transactions that wait to insert a row which a third one
// then takes back end in a deadlock.
//
// Slots are held in ascending order and before anything else of the cache, so that
// nobody holds one that another wants while wanting one that the other holds.

// slotCount is how many slots there are: cache_slots has as many rows.
const slotCount = 1000

func slotOf(key string) int { return int(crc32.ChecksumIEEE([]byte(key)) % slotCount) }

func slotsOf(keys []string) []int {
	slots := make([]int, len(keys))
	for i, key := range keys {
		slots[i] = slotOf(key)
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// generations count by slot how often something of it was forgotten.
type generations map[int]int64

func (g generations) of(key string) int64 { return g[slotOf(key)] }

// hold holds the keys' slots up to the end of the transaction. It waits for whoever
// holds them, and so for changes that have forgotten something and have yet to commit.
func hold(ctx context.Context, tx *dbroute.Tx, keys []string) (generations, error) {
	slots := slotsOf(keys)
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(
		`SELECT slot, generation FROM cache_slots WHERE slot IN (%s) ORDER BY slot FOR UPDATE`, dbroute.Placeholders(len(slots))), anys(slots)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	held := generations{}
	for rows.Next() {
		var slot int
		var generation int64
		if err := rows.Scan(&slot, &generation); err != nil {
			return nil, err
		}
		held[slot] = generation
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(held) != len(slots) {
		return nil, errNoSlot
	}
	return held, nil
}

// advance holds the keys' slots and begins their next generations.
func advance(ctx context.Context, tx *dbroute.Tx, keys []string) error {
	for _, slot := range slotsOf(keys) {
		result, err := tx.ExecContext(ctx, `UPDATE cache_slots SET generation = generation + 1 WHERE slot = ?`, slot)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, errNoSlot)
		}
	}
	return nil
}

var errNoSlot = fmt.Errorf("cache_slots has not the slots 0 to %d", slotCount-1)
