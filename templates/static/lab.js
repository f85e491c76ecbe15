// Runs an experiment where its form is, and shows what it observes as it goes on.
// Without this script the form leads to the page of the finished run.
for (const form of document.querySelectorAll("form[data-run]")) {
  const button = form.querySelector("button");
  const progress = form.querySelector("progress");
  const doing = form.querySelector("[data-doing]");
  const result = form.nextElementSibling;
  const start = button.textContent;
  let stop = null; // ends the run under way
  let named = null; // takes its id, once there is one

  const show = {
    run(id) { named(id); },
    doing(text) {
      const [, done, steps, what] = text.match(/^(\d+) (\d+) (.*)$/s);
      progress.max = steps;
      progress.value = done;
      say(what);
    },
    state(html) { result.innerHTML = html; result.hidden = false; },
    end(text) { say(text); },
  };

  // The status is read aloud, so it changes only when there is something to say.
  function say(text) {
    if (text && doing.textContent !== text) doing.textContent = text;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (stop) {
      say("Stopping.");
      stop();
      return;
    }
    running(true);
    try {
      await run();
    } catch {
      say("The connection to the site is lost, and the run has ended.");
    }
    running(false);
  });

  function running(on) {
    button.textContent = on ? "Stop" : start;
    button.classList.toggle("quiet", on);
    form.toggleAttribute("data-running", on);
    progress.hidden = !on;
    progress.removeAttribute("value");
    stop = null;
    if (on) {
      const id = new Promise((resolve) => { named = resolve; });
      stop = async () => fetch(`/lab/runs/${await id}/stop`, { method: "POST" });
    }
  }

  async function run() {
    const response = await fetch(form.action, {
      method: "POST",
      headers: { Accept: "text/event-stream, application/problem+json" },
    });
    if (!response.ok) {
      const problem = await response.json();
      say(`${problem.title}. ${problem.detail}`);
      return;
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const messages = text.split("\n\n");
      text = messages.pop();
      messages.forEach(receive);
    }
  }

  function receive(message) {
    const lines = message.split("\n");
    const event = lines[0].slice("event: ".length);
    show[event](lines.slice(1).map((line) => line.slice("data: ".length)).join("\n"));
  }
}
