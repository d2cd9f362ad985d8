let rounds = 0;
const work = async () => {
  if (++rounds === 3) process.exit();
};
// …
