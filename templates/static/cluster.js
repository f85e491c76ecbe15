// Replaces the state of the cluster as it changes.
const state = document.getElementById("cluster");
const live = document.getElementById("live");
const events = new EventSource("/cluster/events");
events.addEventListener("state", (event) => {
  state.innerHTML = event.data;
  live.hidden = false;
});
events.addEventListener("error", () => { live.hidden = true; });
