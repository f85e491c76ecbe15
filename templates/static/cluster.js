// Replaces the state of the cluster as it changes. A stream lasts only seconds, and the
// next one goes on where it ended.
const state = document.getElementById("cluster");
const live = document.getElementById("live");
let silence = 0; // ends in the page not being live

function connect() {
  const events = new EventSource("/cluster/events");
  events.addEventListener("state", (event) => {
    state.innerHTML = event.data;
    live.hidden = false;
    clearTimeout(silence);
    silence = setTimeout(() => { live.hidden = true; }, 5000);
  });
  events.addEventListener("error", () => { // or its end
    events.close();
    setTimeout(connect, live.hidden ? 10000 : 1000);
  });
}
connect();
