// Package chart draws charts as SVG that stands by itself: it follows the reader's
// light or dark mode, and says in words what it shows.
package chart

import (
	"fmt"
	"html"
	"strings"
)

const width = 760

// style has a colour for each of up to six series, chosen to be told apart by those who
// see few colours, on white and on black.
const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.small{font-size:12px;fill:#59636e}
.title{font-size:15px;font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1}
.mark{stroke:#9198a1;stroke-width:1.5;stroke-dasharray:4 3}
.line{fill:none;stroke-width:2.5;stroke-linejoin:round}
.c0{fill:#0b5cad}.c1{fill:#b35900}.c2{fill:#1a7f37}.c3{fill:#8250df}.c4{fill:#bf3989}.c5{fill:#59636e}
.s0{stroke:#0b5cad}.s1{stroke:#b35900}.s2{stroke:#1a7f37}.s3{stroke:#8250df}.s4{stroke:#bf3989}.s5{stroke:#59636e}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#3d444d}.mark{stroke:#656c76}
.c0{fill:#58a6ff}.c1{fill:#f0883e}.c2{fill:#3fb950}.c3{fill:#bc8cff}.c4{fill:#f778ba}.c5{fill:#9198a1}
.s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#3fb950}.s3{stroke:#bc8cff}.s4{stroke:#f778ba}.s5{stroke:#9198a1}
}
</style>
`

// colours is how many series there are colours for; further ones begin anew.
const colours = 6

type canvas struct{ strings.Builder }

// open begins a drawing of a height.
func open(height int, title, description string) *canvas {
	c := &canvas{}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title description">`,
		width, height, width, height)
	c.add(`<title id="title">%s</title>`, html.EscapeString(title))
	c.add(`<desc id="description">%s</desc>`, html.EscapeString(description))
	c.WriteString(style)
	c.text(0, 18, "title", "start", title)
	return c
}

func (c *canvas) close() string {
	c.add("</svg>")
	return c.String()
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(x, y float64, class, anchor, text string) {
	c.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}
