package chart

// Bars is a chart of horizontal bars, in groups.
type Bars struct {
	Title       string
	Description string // what it shows, in words
	Groups      []Group
	Mark        float64 // draws a line at a value, unless it is 0
	MarkText    string
}

// Group is bars under one heading, which may be empty.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one bar; bars of one Series have one colour.
type Bar struct {
	Label  string
	Value  float64
	Text   string // the value as it is written beside the bar
	Series int
}

const (
	barHeight  = 18
	barStep    = 26
	groupStep  = 30
	barsTop    = 40
	labelWidth = 250
	textWidth  = 130
)

// SVG draws the chart.
func (b Bars) SVG() string {
	c := open(b.height(), b.Title, b.Description)
	scale := float64(width-labelWidth-textWidth) / b.longest()
	y := float64(barsTop)
	if b.Mark != 0 { // first, so that it is behind the bars and their text
		x, bottom := labelWidth+b.Mark*scale, float64(b.height()-24)
		c.line(x, barsTop-6, x, bottom, "mark")
		c.text(x, bottom+14, "small", "middle", b.MarkText)
	}
	for _, g := range b.Groups {
		if g.Name != "" {
			c.text(0, y+14, "small", "start", g.Name)
			y += groupStep - 4
		}
		for _, bar := range g.Bars {
			length := max(bar.Value*scale, 1)
			c.text(labelWidth-10, y+13, "label", "end", bar.Label)
			c.add(`<rect x="%d" y="%.1f" width="%.1f" height="%d" rx="2" class="c%d"/>`, labelWidth, y, length, barHeight, bar.Series%colours)
			c.text(labelWidth+length+8, y+13, "label", "start", bar.Text)
			y += barStep
		}
		y += 8
	}
	return c.close()
}

func (b Bars) height() int {
	height := barsTop
	for _, g := range b.Groups {
		if g.Name != "" {
			height += groupStep - 4
		}
		height += len(g.Bars)*barStep + 8
	}
	if b.Mark != 0 {
		height += 24
	}
	return height
}

// longest is what the width of the chart stands for.
func (b Bars) longest() float64 {
	longest := b.Mark
	for _, g := range b.Groups {
		for _, bar := range g.Bars {
			longest = max(longest, bar.Value)
		}
	}
	if longest <= 0 {
		return 1
	}
	return longest
}
