// A page that grows needs no script: the answer with it ends late. With this one, the page
// is complete at once, and its list goes on after a lost connection.
const list = document.querySelector("[data-grows]");
const over = document.getElementById("over");

window.stop(); // the rest of the answer
list.replaceChildren(); // the events begin with what it has
const source = new EventSource(location.href);
const add = ({ data }) => list.insertAdjacentHTML("beforeend", data);
source.addEventListener("message", add);
source.addEventListener("end", (event) => {
  add(event);
  source.close();
});
source.addEventListener("error", () => {
  over.hidden = source.readyState !== EventSource.CLOSED; // otherwise it connects again
});
